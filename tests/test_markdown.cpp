/// \file
/// The checks of the pages, themselves checked: each on a page that it has to find fault with.

#include <set>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/markdown.hpp"

using namespace tests;

namespace {

std::vector<std::string> texts(const std::vector<Found>& found) {
  std::vector<std::string> all;
  for (const Found& one : found) all.push_back(one.text);
  return all;
}

}  // namespace

TEST_CASE("links and images are found in every notation") {
  const std::string page =
      "See [one](a.md) and [two](b.md#part \"title\") ![chart](c.svg).\n"
      "and [three][ref].\n\n[ref]: d.md\n\n"
      "<img src=\"e.svg\" alt=\"\"> <source srcset='f.svg'> <a href=\"g.md\">g</a>\n"
      "[![badge](h.svg)](i.md)\n";
  CHECK(
      texts(links_of(page)) ==
      std::vector<std::string>{
          "a.md", "b.md#part", "c.svg", "d.md", "e.svg", "f.svg", "g.md", "h.svg", "i.md"});
  CHECK(links_of(page).back().line == 7);
}

TEST_CASE("what is code is no link") {
  CHECK(links_of("`[no](link)`\n```cpp\nx[i](j);\n```\n~~~\n[no](link)\n~~~\n").empty());
}

TEST_CASE("headings have the anchors that GitHub gives them") {
  const std::string page =
      "# RMSNorm, step by step\n## What `eps` is for?\n## A_b - c\n### See [there](x.md) #\n"
      "## Twice\n## Twice\n```\n# no heading\n```\n#hashtag\n"
      "## 2 \u00b7 Na\u00efve \u2192 fast\n<a id=\"own\"></a>\n";
  CHECK(
      anchors_of(page) == std::set<std::string>{
                              "rmsnorm-step-by-step", "what-eps-is-for", "a_b---c", "see-there",
                              "twice", "twice-1", "2--na\u00efve--fast", "own"});
}

TEST_CASE("fences have a language and a line and their code") {
  const std::vector<Fence> fences =
      fences_of("text\n```cpp\nint a;\n\n```\n  ````md\n```\n````\n```\nopen\n");
  REQUIRE(fences.size() == 3);
  CHECK(fences[0].line == 2);
  CHECK(fences[0].language == "cpp");
  CHECK(fences[0].code == std::vector<std::string>{"int a;", ""});
  CHECK(fences[1].language == "md");
  CHECK(fences[1].code == std::vector<std::string>{"```"});
  CHECK(fences[2].language == "");
  CHECK(fences[2].code == std::vector<std::string>{"open"});
}

TEST_CASE("typed results are found outside the markers only") {
  const std::string page =
      "It reaches 4,251 GB/s, 4.2 TB/s, 3.1us, 3 \u00b5s or 5&nbsp;us.\n"
      "<!-- results:begin lesson 02_naive -->\n100 GB/s\n<!-- results:end -->\n"
      "2 users use GB/s and us and 7 usual ones; 48 KiB; 2 ms.\n"
      "```\n154 GB/s\n```\n";
  CHECK(
      texts(typed_results_of(page)) ==
      std::vector<std::string>{
          "4,251 GB/s", "4.2 TB/s", "3.1us", "3 \u00b5s", "5&nbsp;us", "154 GB/s"});
  CHECK(typed_results_of(page).back().line == 7);
}

TEST_CASE("code occurs in a source if its lines do in one piece") {
  const std::vector<std::string> source = {"void f() {", "  a();  ", "", "    b();", "  c();", "}"};
  CHECK(occurs_in({"a();", "", "  b();"}, source));
  CHECK(occurs_in({"      a();", "   ", "        b();   "}, source));
  CHECK(occurs_in({"void f() {", "  a();"}, source));
  CHECK(occurs_in({"}"}, source));
  CHECK_FALSE(occurs_in({"a();", "b();"}, source));      // a line is missing
  CHECK_FALSE(occurs_in({"a();", "", "b();"}, source));  // the indentation differs
  CHECK_FALSE(occurs_in({"a(1);"}, source));
  CHECK_FALSE(occurs_in({"a()"}, source));  // part of a line
  CHECK_FALSE(occurs_in({"}", "}"}, source));
  CHECK_FALSE(occurs_in({}, source));
}
