#include "s3/xml_reader.h"

#include <algorithm>

#include "s3/names.h"
#include "s3/xml.h"

namespace verbena::s3 {
namespace {

// What pugixml's parser would take without a word: bounds on markup, broken or custom entities, DTDs, NUL.
// The tree costs about 64 bytes per node, so markup is bounded, not only text.
constexpr size_t markup_max = 200'000;
constexpr int depth_max = 8;

bool known_entity(std::string_view at) {
  for (std::string_view entity : {"&lt;", "&gt;", "&amp;", "&apos;", "&quot;"}) {
    if (at.starts_with(entity)) return true;
  }
  const size_t end = at.substr(0, 12).find(';');
  if (!at.starts_with("&#") || end == std::string_view::npos) return false;
  const bool hex = at.size() > 2 && at[2] == 'x';
  const std::string_view digits = at.substr(hex ? 3 : 2, end - (hex ? 3 : 2));
  return !digits.empty() &&
         digits.find_first_not_of(hex ? "0123456789abcdefABCDEF" : "0123456789") == std::string_view::npos;
}

bool acceptable(std::string_view text) {
  if (text.size() > xml_bytes_max || text.find('\0') != std::string_view::npos || !valid_utf8(text)) return false;
  size_t markup = 0;
  for (size_t i = text.find_first_of("<&"); i != std::string_view::npos; i = text.find_first_of("<&", i + 1)) {
    const std::string_view at = text.substr(i);
    if (at.front() == '&') {
      if (!known_entity(at)) return false;
      continue;
    }
    if (++markup > markup_max) return false;
    if (at.starts_with("<!--") || at.starts_with("<![CDATA[")) {
      const size_t end = text.find(at[2] == '-' ? "-->" : "]]>", i + 4);
      if (end == std::string_view::npos) return false;
      i = end;
    } else if (at.starts_with("<!")) {
      return false;
    }
  }
  return true;
}

struct DepthGuard : pugi::xml_tree_walker {
  bool for_each(pugi::xml_node&) override { return depth() <= depth_max; }
};

}  // namespace

Result<pugi::xml_node> load_xml(pugi::xml_document& document, std::string_view text, const char* root) {
  if (!acceptable(text)) return fail(Errc::malformed_xml, "xml: bounds");
  // Keys may be blank or hold line ends: whitespace-only text stays, line ends stay as they are.
  constexpr unsigned flags = (pugi::parse_default & ~pugi::parse_eol) | pugi::parse_ws_pcdata;
  if (!document.load_buffer(text.data(), text.size(), flags, pugi::encoding_utf8)) {
    return fail(Errc::malformed_xml, "xml: syntax");
  }
  DepthGuard guard;
  if (!document.traverse(guard)) return fail(Errc::malformed_xml, "xml: depth");
  const pugi::xml_node node = document.document_element();
  if (!node || std::string_view(node.name()) != root || node.next_sibling()) {
    return fail(Errc::malformed_xml, "xml: root");
  }
  return node;
}

std::string text_of(const pugi::xml_node& node) {
  std::string text;
  for (const auto& child : node.children()) {
    if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) text += child.value();
  }
  return text;
}

std::string trimmed_text(const pugi::xml_node& node) {
  const std::string text = text_of(node);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

Result<void> check_children(const pugi::xml_node& node, std::initializer_list<std::string_view> names) {
  for (const auto& child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    if (std::ranges::find(names, std::string_view(child.name())) == names.end()) {
      return fail(Errc::malformed_xml, "xml: unknown element");
    }
    if (child.next_sibling(child.name())) return fail(Errc::malformed_xml, "xml: repeated element");
  }
  return {};
}

}  // namespace verbena::s3
