// Request documents read with pugixml under limits, shared by all parsers. Internal to s3/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace verbena::s3 {

// The API of a document: each has a namespace of its own.
enum class XmlApi : uint8_t { s3, s3_control };

// Loads a document with the given root. Elements must be in the API's namespace, with any prefix, or in none; they have
// their local names afterwards. malformed_xml: bad syntax, another root, a foreign namespace, too large or too deep
// (xml.h), a DTD, an entity that is not XML's own, a character that XML 1.0 forbids (also as a reference), broken
// UTF-8.
Result<pugi::xml_node> load_xml(pugi::xml_document& document, std::string_view text, const char* root,
                                XmlApi api = XmlApi::s3);

// All text directly inside; blanks and line ends unchanged.
std::string text_of(const pugi::xml_node& node);
// Without blanks at both ends.
std::string trimmed_text(const pugi::xml_node& node);

// Whether there is neither an element nor a text inside, but perhaps blanks and line ends.
bool is_empty(const pugi::xml_node& node);

// malformed_xml when the node has an element that is not among `names`, or a duplicate.
Result<void> check_children(const pugi::xml_node& node, std::initializer_list<std::string_view> names);

}  // namespace verbena::s3
