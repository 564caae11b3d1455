#include "s3/xml.h"

#include <fmt/core.h>

#include <pugixml.hpp>

#include "s3/checksums.h"
#include "s3/conditions.h"
#include "s3/names.h"
#include "s3/query.h"

namespace verbena::s3 {
namespace {

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("&#x{:x};", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

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

// Loads and checks that the root has that name.
Result<pugi::xml_node> load(pugi::xml_document& document, std::string_view text, const char* root) {
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

std::string trimmed(const pugi::xml_node& node) {
  const std::string text = text_of(node);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

Result<DeleteTarget> parse_target(const pugi::xml_node& object) {
  DeleteTarget target;
  bool has_key = false;
  for (const auto& child : object.children()) {
    const std::string_view name = child.name();
    if (name == "Key") {
      if (has_key) return fail(Errc::malformed_xml, "xml: Key");
      target.key = text_of(child);
      has_key = true;
    } else if (name == "VersionId") {
      target.version_id = trimmed(child);
    } else if (name == "ETag") {
      target.etag = strip_quotes(trimmed(child));
    } else if (name == "LastModifiedTime" || name == "Size") {
      target.unsupported_condition = true;
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: Object");
    }
  }
  if (!has_key || target.key.empty()) return fail(Errc::malformed_xml, "xml: Key");
  return target;
}

Result<CompletePart> parse_part(const pugi::xml_node& node) {
  CompletePart part;
  for (const auto& child : node.children()) {
    const std::string_view name = child.name();
    if (name == "PartNumber") {
      const auto number = parse_decimal(trimmed(child));
      if (!number || *number < 1 || *number > store::part_number_max) {
        return fail(Errc::invalid_argument, "Part number must be an integer between 1 and 10000, inclusive.");
      }
      part.number = static_cast<int>(*number);
    } else if (name == "ETag") {
      part.etag = strip_quotes(trimmed(child));
    } else if (name.starts_with("Checksum")) {
      const auto algorithm = parse_algorithm(name.substr(8));
      if (!algorithm || *algorithm == Algorithm::md5) return fail(Errc::malformed_xml, "xml: Checksum");
      VB_ASSIGN(store::Checksum checksum, parse_checksum(*algorithm, trimmed(child)));
      part.checksums.push_back(std::move(checksum));
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: Part");
    }
  }
  if (part.number == 0 || part.etag.empty()) return fail(Errc::malformed_xml, "xml: Part");
  return part;
}

}  // namespace

XmlWriter::XmlWriter(std::string_view root, Namespace ns) : out_("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n") {
  open_with(root, ns == s3 ? "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"" : "");
}

void XmlWriter::open(std::string_view name) { open_with(name, {}); }

void XmlWriter::open_with(std::string_view name, std::string_view attributes) {
  out_ += '<';
  out_ += name;
  if (!attributes.empty()) {
    out_ += ' ';
    out_ += attributes;
  }
  out_ += '>';
  stack_.emplace_back(name);
}

void XmlWriter::close() {
  out_ += "</";
  out_ += stack_.back();
  out_ += '>';
  stack_.pop_back();
}

void XmlWriter::element(std::string_view name, std::string_view text) {
  open(name);
  append_escaped(out_, text);
  close();
}

void XmlWriter::quoted(std::string_view name, std::string_view etag) { element(name, fmt::format("\"{}\"", etag)); }

std::string XmlWriter::finish() {
  while (!stack_.empty()) close();
  return std::move(out_);
}

Result<DeleteDocument> parse_delete(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load(document, text, "Delete"));
  DeleteDocument result;
  for (const auto& child : root.children()) {
    const std::string_view name = child.name();
    if (name == "Quiet") {
      result.quiet = trimmed(child) == "true";
    } else if (name == "Object") {
      if (result.targets.size() == 1000) return fail(Errc::malformed_xml, "xml: more than 1000 keys");
      VB_ASSIGN(DeleteTarget target, parse_target(child));
      result.targets.push_back(std::move(target));
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: Delete");
    }
  }
  if (result.targets.empty()) return fail(Errc::malformed_xml, "xml: no keys");
  return result;
}

Result<std::vector<CompletePart>> parse_complete(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load(document, text, "CompleteMultipartUpload"));
  std::vector<CompletePart> parts;
  for (const auto& child : root.children()) {
    if (std::string_view(child.name()) == "Part") {
      if (parts.size() == store::part_number_max) return fail(Errc::malformed_xml, "xml: more than 10000 parts");
      VB_ASSIGN(CompletePart part, parse_part(child));
      parts.push_back(std::move(part));
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: CompleteMultipartUpload");
    }
  }
  if (parts.empty()) return fail(Errc::malformed_xml, "xml: no parts");
  return parts;
}

Result<std::string> parse_create_bucket(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load(document, text, "CreateBucketConfiguration"));
  std::string region;
  for (const auto& child : root.children()) {
    const std::string_view name = child.name();
    if (name == "LocationConstraint") {
      region = trimmed(child);
    } else if (name == "Location" || name == "Bucket" || name == "Tags") {
      return fail(Errc::not_implemented, "Directory buckets and bucket tags are not implemented.");
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: CreateBucketConfiguration");
    }
  }
  return region;
}

}  // namespace verbena::s3
