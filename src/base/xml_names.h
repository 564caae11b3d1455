// Names of XML elements, whatever prefixes a document's author chose for their namespaces (Namespaces in XML 1.0).
#pragma once

#include <pugixml.hpp>
#include <span>
#include <string_view>

namespace verbena {

// The namespaces that one element may have in scope. Looking up a prefix costs as many comparisons.
inline constexpr size_t xml_bindings_max = 32;

// Replaces the name of each element below and including `root` by its local name. Elements without a namespace are left
// as they are. False: an element of a namespace that is not among `known`, a prefix without a declaration, a name with
// two colons, or more than xml_bindings_max declarations in one scope; the tree is then half renamed. Attributes are
// not changed. The caller has bounded the depth: this recurses.
bool resolve_xml_names(pugi::xml_node root, std::span<const std::string_view> known);

// Likewise for replies of servers, which may have extensions: the root's namespace is the document's own, and elements
// of other namespaces are removed.
bool resolve_xml_reply_names(pugi::xml_node root);

}  // namespace verbena
