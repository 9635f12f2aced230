/// \file
/// What makes the site's pages of the repository's texts.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/base/files.hpp"
#include "docs/site/difference.hpp"
#include "docs/site/document.hpp"
#include "docs/site/glossary.hpp"
#include "docs/site/markdown.hpp"
#include "docs/site/results_page.hpp"
#include "docs/site/site.hpp"
#include "docs/site/text.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm::site;
using tests::contains;

namespace {

const std::vector<Term>& terms() {
  static const std::vector<Term> all = terms_of(
      "# Glossary\n\n- **warp**: 32 threads. They run together.\n- **SM**: a part of a GPU.\n"
      "- **shared memory**: memory of a\n  [block](x.md).\n- **L1**, **L2**: caches.\n");
  return all;
}

/// A page of Markdown as HTML, without the marks for Doxygen.
std::string site_of(const std::string& markdown, TermLinker* linker = nullptr) {
  const Surroundings around{
      "page", [](const std::string& target) { return "to/" + target; },
      [](const std::string& light, const std::string& dark, const std::string& alt) {
        return "<img " + light + " " + dark + " " + alt + ">";
      },
      linker};
  std::string html = to_doxygen(for_site("# Title\n" + markdown, around));
  html = replace_all(html, "\n\\htmlonly[block]\n", "");
  return trimmed(replace_all(html, "\\endhtmlonly\n", ""));
}

std::string text_of(const std::vector<DifferenceLine>& lines) {
  std::string text;
  for (const DifferenceLine& line : lines) {
    using Kind = DifferenceLine::Kind;
    text += line.kind == Kind::added ? '+' : line.kind == Kind::removed ? '-' : ' ';
    text += line.text;
  }
  return text;
}

}  // namespace

TEST_CASE("a page's text becomes the HTML that it means, and its links lead to the site's pages") {
  CHECK(site_of("**SM**s, 2 * 3 * 4, a_b_c") == "<p><strong>SM</strong>s, 2 * 3 * 4, a_b_c</p>");
  CHECK(
      site_of("[a\n`b[0]`](c.md#d), x < y") ==
      "<p><a href=\"to/c.md#d\">a\n<code>b[0]</code></a>, x &lt; y</p>");
  CHECK(site_of("- a\n\ntext") == "<ul>\n<li>a</li>\n</ul>\n<p>text</p>");
}

TEST_CASE("formulas reach the page as they were written") {
  CHECK(site_of("it costs $5 or $10") == "<p>it costs $5 or $10</p>");
  CHECK(
      site_of("```math\n\\frac{1}{2}\n```") ==
      "<div class=\"math wide\" tabindex=\"0\">\\frac{1}{2}</div>");
}

TEST_CASE("tables keep their cells, and numbers stand to the right") {
  const std::string html = site_of("| a | b |\n|---|---:|\n| `x\\|y` | 1 |");
  CHECK_THAT(html, contains("<th scope=\"col\">a</th>\n<th scope=\"col\" class=\"number\">b</th>"));
  CHECK_THAT(html, contains("<td><code>x|y</code></td>\n<td class=\"number\">1</td>"));
  CHECK_THROWS_AS(site_of("| a |\n"), std::runtime_error);
}

TEST_CASE("code of a lesson stays Doxygen's to colour, and other code is shown as it is") {
  CHECK(site_of("```cpp\nint a;\n```") == "\\code{.cpp}\nint a;\n\\endcode");
  CHECK_THAT(
      site_of("```sh\nls <a>  # all\n```"),
      contains("ls &lt;a&gt;<span class=\"comment\">  # all"));
  CHECK_THAT(site_of("```sh\nsed 's/a/# b/'\n```"), !contains("comment"));
  CHECK_THAT(site_of("```text\na message\n```"), contains("fragment prose"));
  CHECK_THAT(site_of("```text\ntwo  columns\n```"), !contains("prose"));
  CHECK_THROWS_AS(site_of("```cpp\nint a;\n"), std::runtime_error);
}

TEST_CASE("a message is broken where its page is, not where its source was") {
  const std::string wide(98, 'a');
  CHECK_THAT(site_of("```text\n" + wide + "\nend\n```"), contains(wide + " end<"));
  CHECK_THAT(site_of("```text\nshort\nend\n```"), contains("short</div>"));
  CHECK_THAT(site_of("```text\n" + wide + "\n\nend\n```"), contains(wide + "</div>"));
  CHECK_THAT(site_of("```text\n" + wide + "\nb  end\n```"), contains(wide + "</div>"));
}

TEST_CASE("a page of results says once what counted, and has no value where none was measured") {
  const auto results = results_pages(tests::top() / "plots/data");
  REQUIRE_FALSE(results.empty());
  const std::string& html = results[0].text;
  CHECK_THAT(html, contains("<caption>Counted by ncu on "));
  const auto part = html.find(">A part of the lessons: ");
  REQUIRE(part != std::string::npos);
  CHECK(html.find(">Times: ") < part);
  CHECK_THAT(html, !contains("on Counted by"));
  CHECK_THAT(html, contains(", commit <code>"));
  CHECK_THAT(html, !contains("`"));
  CHECK_THAT(html, contains("<td>-</td>"));
  CHECK_THAT(html, !contains("data-value=\"-1\""));
  CHECK_THAT(html, contains("<td>262144</td>"));  // what is shown whole is not said twice
  CHECK_THAT(html, contains("<td data-value=\""));
}

TEST_CASE("pictures for a light and a dark page, folds and headings are understood") {
  CHECK(
      site_of("<picture>\n  <source media=\"x\" srcset=\"d.svg\">\n"
              "  <img alt=\"An a\" src=\"l.svg\">\n</picture>") == "<img l.svg d.svg An a>");
  CHECK(
      site_of("<details><summary>A `b`</summary>\n\nc\n\n</details>") ==
      "<details data-kind=\"a\"><summary>A <code>b</code></summary>\n<p>c</p>\n</details>");
  CHECK(
      site_of("## What is `x`?\n") ==
      "<h2><a class=\"anchor\" id=\"s_page_what_is_x\"></a>What is <code>x</code>?</h2>");
}

TEST_CASE("headings have the anchors that GitHub gives them") {
  CHECK(slug_of("What eps is for?") == "what-eps-is-for");
  CHECK(slug_of("A_b - c") == "a_b---c");
  CHECK(slug_of("2 \u00b7 Na\u00efve \u2192 fast") == "2--na\u00efve--fast");
}

TEST_CASE("marks of results and lines that only lead elsewhere are not shown") {
  CHECK(site_of("<!-- results:begin ladder -->\n\na\n\n<!-- results:end -->") == "<p>a</p>");
  CHECK(
      site_of("[Start](../README.md) · next: [b](b.md)\n\na\n\n---\n\n"
              "previous: [b](b.md) · [Glossary](c.md)\n") == "<p>a</p>");
}

TEST_CASE("a term is linked where it first occurs, also in the plural and over two lines") {
  TermLinker linker(terms(), "g.html");
  const std::string html = linker.link("Two warps of a warp use shared\nmemory, not smsm.");
  CHECK(
      html.find("Two <a class=\"term\" href=\"g.html#s_term_warp\" title=\"32 threads.\">warps"
                "</a> of a warp") == 0);
  CHECK_THAT(html, contains("title=\"memory of a block.\">shared\nmemory</a>"));
  CHECK_THAT(html, contains("smsm"));
  CHECK_THAT(linker.link("warp L2 sm"), contains("#s_term_L2"));
  CHECK_THAT(linker.link("SMs"), contains("SMs</a>"));
  const std::vector<Term> window = {{"window", "s_term_window", "16 bytes."}};
  CHECK(TermLinker(window, "g.html").link("On Windows") == "On Windows");
}

TEST_CASE("terms are not linked inside code, links, headings and what a click unfolds") {
  TermLinker linker(terms(), "g.html");
  CHECK_THAT(
      site_of("<details><summary>A warp</summary>\n\nb\n\n</details>", &linker),
      !contains("s_term"));
  CHECK_THAT(site_of("## A warp\n\n`warp` [a warp](b.md)", &linker), !contains("s_term"));
  CHECK_THAT(site_of("a warp", &linker), contains("s_term_warp"));
}

TEST_CASE("a difference removes and adds as few lines as possible") {
  CHECK(text_of(difference_of({"a", "b", "c"}, {"a", "x", "c"})) == " a-b+x c");
  CHECK(text_of(difference_of({}, {"a"})) == "+a");
  CHECK(text_of(difference_of({"a", "b"}, {})) == "-a-b");
  CHECK(text_of(difference_of({"a", "b", "a"}, {"b", "a", "b"})) == "-a b a+b");
  const auto lines = difference_of({"a", "b"}, {"b", "c"});
  CHECK(lines[1].old_number == 2);
  CHECK(lines[1].new_number == 1);
  CHECK(lines[2].old_number == 0);
}

TEST_CASE("unchanged lines far from a change are folded, and still there") {
  std::vector<std::string> before(40, "same");
  std::vector<std::string> after = before;
  after[20] = "new";
  const std::string html = difference_html(difference_of(before, after));
  CHECK(html.find("<summary>16 unchanged lines<") < html.find(">new<"));
  CHECK(html.find("<summary>15 unchanged lines<") > html.find(">new<"));
  CHECK(replace_all(html, ">same<", "").size() == html.size() - 40 * 6);
}

TEST_CASE("a difference has the colours of code") {
  const std::string html = difference_html(difference_of({}, {"int a = f(\"b\");  // c"}));
  CHECK_THAT(html, contains("<span class=\"keyword\">int</span> a = f("));
  CHECK_THAT(html, contains("<span class=\"stringliteral\">&quot;b&quot;</span>"));
  CHECK_THAT(html, contains("<span class=\"comment\">// c</span>"));
}

TEST_CASE("a page leads to its file in the repository if the repository has an address") {
  CHECK(
      edit_address("https://github.com/a/b", "docs/method.md") ==
      "https://github.com/a/b/edit/main/docs/method.md");
  CHECK(edit_address("https://gitlab.com/a/b", "c") == "https://gitlab.com/a/b/-/edit/main/c");
  CHECK(edit_address("https://codeberg.org/a/b", "c") == "https://codeberg.org/a/b/_edit/main/c");
  CHECK(edit_address("https://git.example.com/a/b", "c") == "");

  const tests::TemporaryFolder folder;
  rmsnorm::write_file(
      folder / "lessons.tsv", tests::run({tests::top() / "rmsnorm", "list", "--tabs"}).out);
  for (const std::string repository :
       {"https://github.com/a/b", "https://git.example.com/a/b", ""}) {
    write_pages(tests::top(), folder / "lessons.tsv", folder / "pages", repository);
    for (const auto& [page, file] :
         {std::pair("index", "README.md"),
          {"glossary", "docs/glossary.md"},
          {"lesson_04_warp_reduce", "lessons/04_warp_reduce/README.md"}}) {
      CAPTURE(repository, page);
      const std::string text = rmsnorm::read_file(folder / "pages" / (std::string(page) + ".dox"));
      const std::string edit = edit_address(repository, file);
      const std::string links =
          (edit.empty() ? "" : edit + "\">Edit this page</a> &middot; <a href=\"") + repository;
      CHECK(
          between(text, "<p class=\"lesson-links\"><a href=\"https://", "\">Repository</a>") ==
          (repository.empty() ? "" : links.substr(8)));
    }
  }
}

TEST_CASE("a drawing has the colours of the page that it is for") {
  const std::string svg =
      "<style>.a { fill: red; } @media (prefers-color-scheme: dark) { .a { fill: blue; } } .b "
      "{}</style>";
  CHECK(drawing_for(svg, false) == "<style>.a { fill: red; }  .b {}</style>");
  CHECK(drawing_for(svg, true) == "<style>.a { fill: red; }  .a { fill: blue; }  .b {}</style>");
}
