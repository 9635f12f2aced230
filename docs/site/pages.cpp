#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/base/files.hpp"
#include "docs/site/contents.hpp"
#include "docs/site/difference.hpp"
#include "docs/site/glossary.hpp"
#include "docs/site/markdown.hpp"
#include "docs/site/results_page.hpp"
#include "docs/site/site.hpp"
#include "docs/site/text.hpp"

namespace rmsnorm::site {
namespace {

class Site {
 public:
  Site(fs::path root, std::vector<Lesson> lessons, fs::path folder, std::string_view repository)
      : root_(std::move(root)),
        folder_(std::move(folder)),
        repository_(repository),
        lessons_(std::move(lessons)),
        terms_(terms_of(read_file(root_ / "docs/glossary.md"))) {}

  void write() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    name_pages();
    for (std::size_t i = 0; i < lessons_.size(); ++i) lesson(i);
    for (const Interactive& figure : kInteractives) interactive(figure);
    for (const FilePage& page : kFilePages) file_page(page);
    charts();
    start();
    results();
    sources();  // last: the other pages say which are needed
  }

 private:
  /// Every page's address, before the first page is written: any may lead to any.
  void name_pages() {
    pages_["README.md"] = "index";
    pages_["."] = "index";
    for (const Lesson& lesson : lessons_) {
      const std::string folder = "lessons/" + lesson.slug;
      pages_[folder] = pages_[folder + "/README.md"] = lesson.label;
      pages_[folder + "/rms_norm.cu"] = "kernel_" + lesson.slug;
    }
    for (const FilePage& page : kFilePages) {
      pages_[page.file] = page.label;
    }
    pages_["plots/charts"] = "charts";
    pages_["plots/data"] = "results";
  }

  void add(const std::string& label, const std::string& title, const std::string& text) {
    write_page(label, "\\page " + label + " " + title + "\n\n" + text);
  }

  /// A comment, as Doxygen wants it. (Of Markdown files it would choose the addresses itself.)
  void write_page(const std::string& label, const std::string& text) {
    write_file(folder_ / (label + ".dox"), "/**\n" + text + "*/\n");
  }

  /// The address of what a page of a folder links to.
  std::string address(const fs::path& folder, const std::string& target) {
    if (target.find("://") != std::string::npos || target.starts_with("mailto:")) return target;
    const std::size_t hash = std::min(target.find('#'), target.size());
    const std::string anchor = target.substr(std::min(hash + 1, target.size()));
    std::string file = (folder / target.substr(0, hash)).lexically_normal().string();
    if (file.size() > 1 && file.ends_with("/")) file.pop_back();
    if (file.empty()) file = ".";
    if (!fs::exists(root_ / file)) throw std::runtime_error("a link leads nowhere: " + target);

    const fs::path path = file;
    const auto page = pages_.find(file);
    if (page != pages_.end()) {
      const std::string section = anchor.empty() ? "" : "#" + section_label(page->second, anchor);
      return page->second + ".html" + section;
    }
    if (is_inside(path, "plots/charts"))
      return "charts.html#" + section_label("charts", path.stem().string());
    const bool is_of_tests = is_inside(path, "common/cpu_device/tests");
    if (path.extension() == ".hpp" && is_inside(path, "common") && !is_of_tests &&
        !is_of_cuda(path)) {
      return api_page(path);
    }
    std::string label = "source_" + label_of(file);
    sources_[file] = label;
    return label + ".html";
  }

  /// The page that Doxygen makes of a header: by its name, and its folder if another has the name.
  std::string api_page(const fs::path& file) const {
    const auto files = fs::recursive_directory_iterator(root_ / "common");
    const auto same = std::count_if(begin(files), end(files), [&](const auto& entry) {
      return entry.path().filename() == file.filename();
    });
    const fs::path named =
        same > 1 ? file.parent_path().filename() / file.filename() : file.filename();
    std::string page = replace_all(named.string(), "_", "__");
    page = replace_all(replace_all(page, ".", "_8"), "/", "_2");
    return page + ".html";
  }

  std::string image(
      const fs::path& folder, const std::string& light, const std::string& dark,
      const std::string& alt) {
    const fs::path file = (folder / light).lexically_normal();
    if (!fs::exists(root_ / file)) throw std::runtime_error("there is no image " + light);
    const std::string stem = file.stem().string();
    if (is_inside(file, "docs/figures"))
      return figure("figures/" + stem + "-light.svg", "figures/" + stem + "-dark.svg", alt);
    if (!is_inside(file, "plots/charts"))
      throw std::runtime_error(
          "an image lies neither in docs/figures nor in plots/charts: " + light);
    const std::string twin = dark.empty() ? stem + "-dark.svg" : fs::path(dark).filename().string();
    return figure("charts/" + stem + ".svg", "charts/" + twin, alt);
  }

  Surroundings surroundings(const fs::path& folder, const std::string& label, TermLinker* terms) {
    return {
        label,
        [this, folder, label](const std::string& target) {
          if (target.starts_with("#")) return "#" + section_label(label, target.substr(1));
          return address(folder, target);
        },
        [this, folder](const std::string& light, const std::string& dark, const std::string& alt) {
          return image(folder, light, dark, alt);
        },
        terms};
  }

  /// The text of a file of the repository.
  std::string text_of(const std::string& file, const std::string& label) {
    const bool is_glossary = label == "glossary";
    TermLinker terms(terms_, "glossary.html");
    try {
      const fs::path folder = fs::path(file).parent_path();
      const Document page = for_site(
          read_file(root_ / file), surroundings(folder, label, is_glossary ? nullptr : &terms));
      if (is_glossary) make_headings_of_terms(page);
      const std::string text = to_doxygen(page);
      const bool has_formulas = text.find("class=\"math") != std::string::npos;
      return has_formulas ? html_block(kFormulas) + text : text;
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("{}: {}", file, error.what()));
    }
  }

  /// Links to the file that a page was made of, and to the repository.
  std::string repository_links(const std::string& file) const {
    if (repository_.empty()) return "";
    const std::string edit = edit_address(repository_, file);
    const std::string edit_link =
        edit.empty() ? "" : link(escape_html(edit), "Edit this page") + " &middot; ";
    return html_block(
        "<p class=\"lesson-links\">" + edit_link + link(escape_html(repository_), "Repository") +
        "</p>\n");
  }

  /// Makes links of what the CPU device says, "lessons/04_warp_reduce/rms_norm.cu:49".
  static std::string with_linked_lines(const std::string& text) {
    static const std::regex kLine(R"(lessons/(\w+)/rms_norm\.cu:(\d+))");
    std::string linked;
    auto end = text.begin();
    for (std::sregex_iterator line(end, text.end(), kLine), none; line != none; ++line) {
      linked.append(end, (*line)[0].first);
      linked +=
          link(fmt::format("kernel_{}.html#l{:0>5}", line->str(1), line->str(2)), line->str());
      end = (*line)[0].second;
    }
    return linked.append(end, text.end());
  }

  // --- lessons

  /// All lessons, and which of them the reader is at.
  std::string ladder(std::size_t here) const {
    std::string html = "<nav class=\"ladder\" aria-label=\"The ladder\"><ol>\n";
    for (std::size_t i = 0; i < lessons_.size(); ++i) {
      const Lesson& lesson = lessons_[i];
      html += fmt::format(
          "<li{}><a href=\"{}.html\" title=\"{}\"{}>{}</a></li>\n",
          i < here ? " class=\"before\"" : "", lesson.label, escape_html(lesson.title),
          i == here ? " aria-current=\"page\"" : "", lesson.number);
    }
    return html + "</ol></nav>\n";
  }

  static std::string card(bool previous, const Lesson& lesson) {
    return fmt::format(
        "<a class=\"card {}\" href=\"{}.html\"><span class=\"where\">{}</span> "
        "<span class=\"what\">{}</span> <span class=\"why\">{}</span></a>\n",
        previous ? "previous" : "next", lesson.label, previous ? "Previous" : "Next",
        escape_html(lesson.title), escape_html(lesson.idea));
  }

  static std::string previous_and_next(const Lesson& previous, const Lesson& next) {
    return "<nav class=\"cards\" aria-label=\"Previous and next\">\n" + card(true, previous) +
           card(false, next) + "</nav>\n";
  }

  static std::string only_next(const Lesson& next) {
    return "<nav class=\"cards\" aria-label=\"Next\">\n" + card(false, next) + "</nav>\n";
  }

  /// The lesson that a later one is compared with.
  std::size_t origin_of(std::size_t i) const {
    const std::string& from = lessons_[i].starts_from;
    if (from.empty()) return i - 1;
    const auto found = std::ranges::find(lessons_, from, &Lesson::slug);
    if (found == lessons_.end()) throw std::runtime_error("there is no lesson " + from);
    return static_cast<std::size_t>(found - lessons_.begin());
  }

  std::vector<std::string> kernel_lines(std::size_t i) const {
    return split_lines(read_file(root_ / "lessons" / lessons_[i].slug / "rms_norm.cu"));
  }

  /// What follows the files' heads, without the marks of what their pages show.
  static std::vector<DifferenceLine> of_code(std::vector<DifferenceLine> lines) {
    lines.erase(lines.begin(), std::ranges::find(lines, "namespace {", &DifferenceLine::text));
    std::erase_if(
        lines, [](const DifferenceLine& line) { return trimmed(line.text).starts_with("// ["); });
    return lines;
  }

  /// Puts HTML below a heading of a page's text.
  static void add_below(
      const std::string& label, std::string_view title, const std::string& html,
      std::string& text) {
    const std::string id = "id=\"" + section_label(label, slug_of(title)) + "\"";
    const std::size_t heading = text.find(id);
    if (heading == std::string::npos)
      throw std::runtime_error(fmt::format("{} has no section '{}'", label, title));
    text.insert(text.find("</h2>\n", heading) + 6, html);
  }

  static std::string size_of_change(const std::vector<DifferenceLine>& lines) {
    return fmt::format(
        "<span class=\"size\"><span class=\"plus\">+{}</span> <span "
        "class=\"minus\">&minus;{}</span> "
        "lines</span>",
        count_of(lines, DifferenceLine::Kind::added),
        count_of(lines, DifferenceLine::Kind::removed));
  }

  void lesson(std::size_t i) {
    const Lesson& lesson = lessons_[i];
    const std::string label = lesson.label;
    const std::string file = "lessons/" + lesson.slug + "/rms_norm.cu";
    const std::string kernel = "kernel_" + lesson.slug;
    std::string text = with_linked_lines(text_of("lessons/" + lesson.slug + "/README.md", label));
    std::string links;
    if (i > 0) {
      const std::size_t origin = origin_of(i);
      const Lesson& before = lessons_[origin];
      const std::string place = section_label(label, "changes");
      const auto lines = of_code(difference_of(kernel_lines(origin), kernel_lines(i)));
      links = link("#" + place, "What changed since lesson " + before.number) + " " +
              size_of_change(lines) + " &middot; ";
      add_below(
          label, "The kernel",
          fmt::format(
              "<details><summary>What changed since lesson {}</summary>\n<p id=\"{}\">In a "
              "terminal: "
              "<code>git diff --no-index lessons/{}/rms_norm.cu {}</code></p>\n{}</details>\n",
              before.number, place, before.slug, file, difference_html(lines)),
          text);
    }
    links += link(kernel + ".html", "The whole file") + " &middot; <code>./rmsnorm lesson " +
             std::to_string(std::stoi(lesson.number)) + "</code>";
    for (const Interactive& figure : kInteractives) {
      const bool is_here = std::string(figure.lessons).find(lesson.number) != std::string::npos;
      const std::string page = page_of(figure) + ".html?lesson=" + lesson.number;
      if (is_here) links += " &middot; " + link(page, figure.title);
    }
    add(label, lesson.title,
        html_block(ladder(i) + "<p class=\"lesson-links\">" + links + "</p>\n") + text +
            html_block(previous_and_next(
                i > 0 ? lessons_[i - 1] : kStart,
                i + 1 < lessons_.size() ? lessons_[i + 1] : kYourTurn)) +
            repository_links("lessons/" + lesson.slug + "/README.md") + hidden(subpage(kernel)));
    add(kernel, "The file of lesson " + lesson.number,
        html_block(
            ladder(i) + "<p>" + link(label + ".html", escape_html(lesson.title)) +
            " &middot; <code>" + file + "</code></p>\n") +
            "\n\\include{lineno} " + file + "\n");
  }

  static std::string subpage(const std::string& label) { return "- \\subpage " + label + "\n"; }

  /// Doxygen's tree follows \subpage commands; the page has better links.
  static std::string hidden(const std::string& subpages) {
    return html_block("<div hidden>\n") + "\n" + subpages + html_block("</div>\n");
  }

  // --- pages that are no lesson

  /// A card that leads to a page of kFilePages, or to the start.
  std::string card_to(std::string_view label) const {
    Lesson next = kStart;
    for (const FilePage& page : kFilePages)
      if (page.label == label)
        next = {"", "", page.label, title_of(read_file(root_ / page.file)), ""};
    return only_next(next);
  }

  void file_page(const FilePage& page) {
    const char* next = page.next != nullptr ? page.next : (&page + 1)->label;
    add(page.label, title_of(read_file(root_ / page.file)),
        text_of(page.file, page.label) + html_block(card_to(next)) + repository_links(page.file));
  }

  void results() {
    std::vector<ResultsPage> pages = results_pages(root_ / "plots/data");
    std::string tree;
    for (std::size_t i = 1; i < pages.size(); ++i) {
      add(pages[i].label, pages[i].title, pages[i].text);
      tree += subpage(pages[i].label);
    }
    std::string charts;
    for (const std::string name : {"progression_prefill", "progression_decode_warm"})
      charts += chart(name);
    add(pages[0].label, pages[0].title,
        html_block("<div class=\"pair\">" + charts + "</div>\n") + pages[0].text + hidden(tree));
  }

  /// What a chart says it shows.
  std::string finding_of(const std::string& chart) const {
    return between(read_file(root_ / "plots/charts" / (chart + ".svg")), "<title>", "</title>");
  }

  std::string chart(const std::string& name) const {
    const std::string file = "charts/" + name;
    return figure(file + ".svg", file + "-dark.svg", finding_of(name)) + "\n";
  }

  void charts() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_ / "plots/charts")) {
      const std::string name = entry.path().stem().string();
      if (entry.path().extension() == ".svg" && !name.ends_with("-dark")) names.push_back(name);
    }
    std::ranges::sort(names);
    std::ranges::stable_sort(names, {}, place_of_chart);
    std::string text = html_block(
        "<p>Every chart that was drawn from the recorded results. " +
        link("reading_the_charts.html", "Reading the charts") + " says what they show.</p>\n");
    for (const std::string& name : names) {
      text += html_block(
          heading(2, section_label("charts", name), finding_of(name)) + chart(name) + "<p><code>" +
          name + ".svg</code></p>\n");
    }
    add("charts", "All charts", text);
  }

  static std::string page_of(const Interactive& figure) {
    return "figure_" + std::string(figure.name);
  }

  void interactive(const Interactive& figure) {
    add(page_of(figure), figure.title, html_block(html_of(figure) + only_next(lessons_.at(1))));
  }

  std::string html_of(const Interactive& figure) const {
    return read_file(root_ / "docs/interactive" / (std::string(figure.name) + ".html"));
  }

  void start() {
    const std::string title = title_of(read_file(root_ / "README.md"));
    std::string tree;
    const auto add_pages = [&](bool of_projects) {
      for (const FilePage& page : kFilePages)
        if (std::string_view(page.file).starts_with("lessons/") == of_projects)
          tree += subpage(page.label);
    };
    for (const Lesson& lesson : lessons_) tree += subpage(lesson.label);
    add_pages(true);
    for (const Interactive& figure : kInteractives) tree += subpage(page_of(figure));
    tree += subpage("results") + subpage("charts");
    add_pages(false);
    tree += subpage("sources");
    std::string text = text_of("README.md", "index");
    const std::string ladder = html_of(kInteractives[0]);
    add_below(
        "index", "The ladder",
        "<p>A row goes through lesson 02's kernel. (" +
            link(page_of(kInteractives[0]) + ".html", "The other lessons") + ")</p>\n" +
            replace_all(
                ladder.substr(ladder.find("<link")), "data-figure", "data-plays data-figure"),
        text);
    write_page(
        "index", "\\mainpage " + title + "\n\n" + text + html_block(only_next(lessons_.at(0))) +
                     repository_links("README.md") + hidden(tree));
  }

  // --- files that the pages lead to

  void sources() {
    std::string tree;
    std::string list;
    while (!sources_.empty()) {
      const auto [file, label] = *sources_.begin();
      sources_.erase(sources_.begin());
      if (fs::exists(folder_ / (label + ".dox"))) continue;
      tree += subpage(label);
      list += "<li>" + link(label + ".html", "<code>" + escape_html(file) + "</code>") + "</li>\n";
      if (fs::is_directory(root_ / file)) {
        folder_page(file, label);
      } else {
        source_page(file, label);
      }
    }
    add("sources", "Files that the pages lead to",
        html_block("<ul>\n" + list + "</ul>\n") + hidden(tree));
  }

  void folder_page(const std::string& folder, const std::string& label) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(root_ / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    std::string html = "<p>The files of this folder.</p>\n<ul>\n";
    for (const fs::path& file : files) {
      const std::string name = file.filename().string();
      html += "<li>" + link(address(folder, name), "<code>" + escape_html(name) + "</code>") +
              "</li>\n";
    }
    add(label, folder, html_block(html + "</ul>\n"));
  }

  void source_page(const std::string& file, const std::string& label) {
    const std::string extension = fs::path(file).extension().string();
    const bool is_code = extension == ".cpp" || extension == ".hpp" || extension == ".cu";
    if (is_code) {
      add(label, file, "\\include{lineno} " + file + "\n");
      return;
    }
    std::string text = read_file(root_ / file);
    constexpr std::size_t kMost = 200000;  // bytes: Doxygen has no room for pages of 256 KiB
    if (text.size() > kMost) {
      text.resize(text.rfind('\n', kMost) + 1);
      text += "... (the file goes on)\n";
    }
    add(label, file, html_block(fragment(text, "text")));
  }

  fs::path root_;
  fs::path folder_;
  std::string repository_;  // its address, or ""
  std::vector<Lesson> lessons_;
  std::vector<Term> terms_;
  std::map<std::string, std::string> pages_;  // labels, by file
  std::map<std::string, std::string>
      sources_;  // labels of pages that are still to be made, by file
};

}  // namespace

void write_pages(
    const fs::path& root, const fs::path& lessons, const fs::path& folder,
    std::string_view repository) {
  Site(root, read_lessons(lessons), folder, repository).write();
}

std::string edit_address(std::string_view repository, std::string_view file) {
  static constexpr std::pair<std::string_view, std::string_view> kForges[] = {
      {"https://github.com/", "/edit/main/"},
      {"https://gitlab.com/", "/-/edit/main/"},
      {"https://codeberg.org/", "/_edit/main/"}};
  for (const auto& [forge, edit] : kForges) {
    if (repository.starts_with(forge)) return fmt::format("{}{}{}", repository, edit, file);
  }
  return "";
}

}  // namespace rmsnorm::site
