#include "s3/xml_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "base/utf8.h"
#include "base/xml_names.h"
#include "s3/names.h"
#include "s3/xml.h"

namespace verbena::s3 {
namespace {

// Checks that pugixml's parser lacks: limits on markup, broken or custom entities, DTDs, characters that XML forbids.
// The tree costs about 64 bytes per node, so markup is bounded, not only text.
constexpr size_t markup_max = 200'000;
constexpr int depth_max = 8;

// S3's namespace, and variants that old clients use (boto 2 and others).
constexpr auto s3_namespaces = std::to_array<std::string_view>(
    {"http://s3.amazonaws.com/doc/2006-03-01/", "http://s3.amazonaws.com/doc/2006-03-01",
     "https://s3.amazonaws.com/doc/2006-03-01/", "http://doc.s3.amazonaws.com/2006-03-01",
     "http://doc.s3.amazonaws.com/2006-03-01/"});
constexpr auto s3_control_namespaces =
    std::to_array<std::string_view>({"http://awss3control.amazonaws.com/doc/2018-08-20/"});

std::span<const std::string_view> namespaces_of(XmlApi api) {
  if (api == XmlApi::s3_control) return s3_control_namespaces;
  return s3_namespaces;
}

// XML 1.0, section 2.2.
constexpr bool is_xml_character(uint32_t c) {
  return c == 0x9 || c == 0xa || c == 0xd || (c >= 0x20 && c <= 0xd7ff) || (c >= 0xe000 && c <= 0xfffd) ||
         (c >= 0x10000 && c <= 0x10ffff);
}

// "&#65;" or "&#x41;" of a valid character. A 0 would end the text for the parser, which uses C strings: the rest of a
// key or prefix would be lost.
bool known_reference(std::string_view at) {
  const size_t end = at.substr(0, 12).find(';');
  if (!at.starts_with("&#") || end == std::string_view::npos) return false;
  const bool hex = at.size() > 2 && at[2] == 'x';
  const std::string_view digits = at.substr(hex ? 3 : 2, end - (hex ? 3 : 2));
  uint32_t code = 0;
  const auto [stop, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
  return wrong == std::errc() && stop == digits.data() + digits.size() && is_xml_character(code);
}

bool known_entity(std::string_view at) {
  for (std::string_view entity : {"&lt;", "&gt;", "&amp;", "&apos;", "&quot;"}) {
    if (at.starts_with(entity)) return true;
  }
  return known_reference(at);
}

// For valid UTF-8.
bool has_xml_characters_only(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 && !is_xml_character(byte)) return false;
    // U+FFFE and U+FFFF.
    if (byte == 0xef && (text.substr(i, 3) == "\xef\xbf\xbe" || text.substr(i, 3) == "\xef\xbf\xbf")) return false;
  }
  return true;
}

bool acceptable(std::string_view text) {
  if (text.size() > xml_bytes_max || !valid_utf8(text) || !has_xml_characters_only(text)) return false;
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

Result<pugi::xml_node> load_xml(pugi::xml_document& document, std::string_view text, const char* root, XmlApi api) {
  if (!acceptable(text)) return fail(Errc::malformed_xml, "xml: bounds");
  // Keys may be blank or hold line ends: whitespace-only text stays, line ends stay as they are.
  constexpr unsigned flags = (pugi::parse_default & ~pugi::parse_eol) | pugi::parse_ws_pcdata;
  if (!document.load_buffer(text.data(), text.size(), flags, pugi::encoding_utf8)) {
    return fail(Errc::malformed_xml, "xml: syntax");
  }
  DepthGuard guard;
  if (!document.traverse(guard)) return fail(Errc::malformed_xml, "xml: depth");
  const pugi::xml_node node = document.document_element();
  if (!resolve_xml_names(node, namespaces_of(api))) return fail(Errc::malformed_xml, "xml: namespace");
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

bool is_empty(const pugi::xml_node& node) {
  const auto is_element = [](const pugi::xml_node& child) { return child.type() == pugi::node_element; };
  return !node.find_child(is_element) && trimmed_text(node).empty();
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
