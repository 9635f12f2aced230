/// \file
/// Makes the pages that Doxygen reads, and finishes the HTML that it writes.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "docs/site/site.hpp"
#include "plots/tool.hpp"

int main(int argc, char** argv) {
  std::filesystem::path root, lessons, folder;
  std::string repository;
  CLI::App app("The site's pages: before Doxygen (pages) and after it (finish).");
  app.require_subcommand(1);
  CLI::App* pages = app.add_subcommand("pages", "Write the pages that Doxygen reads");
  CLI::App* finish = app.add_subcommand("finish", "Finish the HTML that Doxygen has written");
  for (CLI::App* command : {pages, finish}) {
    command->add_option("--root", root, "The repository's folder")->required()->type_name("DIR");
    command->add_option("--out", folder, "The folder of the pages")->required()->type_name("DIR");
  }
  pages->add_option("--lessons", lessons, "What ./rmsnorm list --tabs prints")
      ->required()
      ->type_name("FILE");
  pages->add_option("--repository", repository, "The repository's address; empty: no links to it")
      ->type_name("URL");
  return rmsnorm::plots::run_tool(app, argc, argv, [&] {
    if (*pages) {
      rmsnorm::site::write_pages(root, lessons, folder, repository);
    } else {
      rmsnorm::site::finish(root, folder);
    }
    return rmsnorm::plots::kDone;
  });
}
