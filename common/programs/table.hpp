#pragma once
/// \file
/// Text in columns, and what a run, a lesson and a check show in them.

#include <string>
#include <vector>

#include "common/records/result.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// Rows of cells. A column that is empty in all of them is not shown.
class Table {
 public:
  /// \param left  so many columns, the first ones, are flush left; the others are flush right
  explicit Table(std::size_t left) : left_(left) {}

  void add(std::vector<std::string> cells);        ///< a row
  void add_names(std::vector<std::string> cells);  ///< of columns: the first may reach over others
  void add_heading(const std::string& text);  ///< over the rows that follow, which are indented
  std::string text() const;                   ///< all of it, a line for each row

 private:
  struct Row {
    std::vector<std::string> cells;
    bool is_names;  // of columns, or a heading: nothing that fills a column
  };
  std::vector<Row> rows_;
  std::size_t left_;
  bool has_headings_ = false;
};

/// A verdict in capitals; with colour, green, red or yellow.
std::string verdict_text(Verdict verdict, bool colour);

/// A line for each result, with what was measured or counted: of one kernel a line for each regime,
/// of several under the regime's heading one for each kernel. "" if there are no results.
std::string result_table(
    const std::vector<Result>& results, const std::vector<Watched>& launches, bool colour);

/// A line for each lesson, and for what does the same operation, under the operation's name: its
/// verdict, and what a row costs in the first of its launches. Where times were measured, a line
/// for each type, with the time of one launch in decode and % of the roof elsewhere. Variants have
/// no line unless they are wrong; sweeps, problems of the reader's own and fp16, which is like
/// bf16, no column of times. "" if there are no results.
std::string run_table(
    const std::vector<Result>& results, const std::vector<Watched>& launches, bool colour);

/// What a row costs, a line for each launch. "" if there are none.
std::string cost_table(const std::vector<Watched>& launches);

/// What stands behind a number of sectors that is as predicted.
inline constexpr const char* kAsPredicted = "\u2713";

}  // namespace rmsnorm
