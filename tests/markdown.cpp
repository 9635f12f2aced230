#include "tests/markdown.hpp"

#include "docs/site/document.hpp"
#include "tests/repository.hpp"

namespace tests {

std::vector<Fence> fences_of(const std::string& page) {
  std::vector<Fence> fences;
  const auto document = rmsnorm::site::parse(page);
  rmsnorm::site::for_each_node(document.get(), [&](cmark_node* node) {
    int size = 0, offset = 0;
    char mark = 0;
    if (cmark_node_get_fenced(node, &size, &offset, &mark) == 0) return;
    const std::string info = cmark_node_get_fence_info(node);
    fences.push_back(
        {static_cast<std::size_t>(cmark_node_get_start_line(node)),
         info.substr(0, info.find_first_of(" {")), lines_in(rmsnorm::site::literal_of(node))});
  });
  return fences;
}

}  // namespace tests
