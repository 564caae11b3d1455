#include "s3/tag_set.h"

#include <algorithm>

#include "base/utf8.h"
#include "s3/names.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

constexpr size_t key_characters_max = 128;
constexpr size_t value_characters_max = 256;

// For UTF-8 text.
size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

// Letters and digits of any script, blanks, and + - = . _ : / @.
bool has_tag_characters_only(std::string_view text) {
  constexpr std::string_view marks = " +-=._:/@";
  return std::ranges::all_of(text, [&](char c) {
    return static_cast<unsigned char>(c) >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || marks.find(c) != std::string_view::npos;
  });
}

Result<store::Tags::value_type> parse_tag(const pugi::xml_node& node) {
  store::Tags::value_type tag;
  int keys = 0, values = 0;
  for (const auto& child : node.children()) {
    const std::string_view name = child.name();
    if (name == "Key") {
      tag.first = text_of(child);
      ++keys;
    } else if (name == "Value") {
      tag.second = text_of(child);
      ++values;
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: Tag");
    }
  }
  if (keys != 1 || values != 1) return fail(Errc::malformed_xml, "xml: Tag");
  return tag;
}

}  // namespace

Result<void> check_tags(const store::Tags& tags, size_t tags_max) {
  if (tags.size() > tags_max) {
    return fail(Errc::invalid_tag, tags_max == object_tags_max ? "Object tags cannot be greater than 10."
                                                               : "Bucket tag count cannot be greater than 50.");
  }
  for (const auto& [key, value] : tags) {
    if (key.empty() || characters(key) > key_characters_max || !has_tag_characters_only(key) || !valid_utf8(key)) {
      return fail(Errc::invalid_tag, "The TagKey you have provided is invalid.");
    }
    if (characters(value) > value_characters_max || !has_tag_characters_only(value) || !valid_utf8(value)) {
      return fail(Errc::invalid_tag, "The TagValue you have provided is invalid.");
    }
    if (key.starts_with("aws:")) {
      return fail(Errc::invalid_tag, "System tags cannot be added/updated by requester.");
    }
    if (std::ranges::count(tags, key, &store::Tags::value_type::first) > 1) {
      return fail(Errc::invalid_tag, "Cannot provide multiple Tags with the same key.");
    }
  }
  return {};
}

Result<store::Tags> read_tags(const pugi::xml_node& list, size_t tags_max) {
  store::Tags tags;
  for (const auto& child : list.children()) {
    if (std::string_view(child.name()) == "Tag") {
      VB_ASSIGN(auto tag, parse_tag(child));
      tags.push_back(std::move(tag));
      if (tags.size() > tags_max) break;
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: tags");
    }
  }
  VB_TRY(check_tags(tags, tags_max));
  return tags;
}

Result<store::Tags> parse_tagging(std::string_view text, size_t tags_max) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "Tagging"));
  const pugi::xml_node set = root.child("TagSet");
  if (!set) return fail(Errc::malformed_xml, "xml: TagSet");
  return read_tags(set, tags_max);
}

void write_tags(XmlWriter& xml, const store::Tags& tags) {
  for (const auto& [key, value] : tags) {
    xml.open("Tag");
    xml.element("Key", key);
    xml.element("Value", value);
    xml.close();
  }
}

std::string tagging_xml(const store::Tags& tags) {
  XmlWriter xml("Tagging");
  xml.open("TagSet");
  write_tags(xml, tags);
  return xml.finish();
}

}  // namespace verbena::s3
