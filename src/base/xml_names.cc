#include "base/xml_names.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace verbena {
namespace {

constexpr std::string_view xml_itself = "http://www.w3.org/XML/1998/namespace";

struct XmlBinding {
  std::string_view prefix, uri;  // both point into the document's attributes, which are not removed
};

struct XmlName {
  std::string_view prefix, local;
};

// nullopt: not a name that Namespaces in XML allows.
std::optional<XmlName> split_xml_name(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return XmlName{{}, name};
  const XmlName out{name.substr(0, colon), name.substr(colon + 1)};
  if (out.prefix.empty() || out.local.empty() || out.local.find(':') != std::string_view::npos) return std::nullopt;
  return out;
}

class XmlNameResolver {
 public:
  // `known` empty: takes the first namespace that occurs, and elements of others are dropped.
  XmlNameResolver(std::span<const std::string_view> known, bool drops) : known_(known), drops_(drops) {}

  bool resolve(pugi::xml_node element) {
    const size_t outer = bindings_.size();
    const bool sound = bind(element) && name(element) && below(element);
    bindings_.resize(outer);
    return sound;
  }

 private:
  bool bind(pugi::xml_node element) {
    constexpr std::string_view declaration = "xmlns";
    for (const auto& attribute : element.attributes()) {
      std::string_view name = attribute.name();
      if (!name.starts_with(declaration)) continue;
      name.remove_prefix(declaration.size());
      if (!name.empty() && name.front() != ':') continue;
      if (name.size() == 1 || bindings_.size() == xml_bindings_max) return false;
      const std::string_view prefix = name.empty() ? name : name.substr(1), uri = attribute.value();
      if (!prefix.empty() && uri.empty()) return false;  // only the default namespace can be undeclared
      bindings_.push_back({prefix, uri});
    }
    return true;
  }

  // nullopt: the prefix was not declared.
  std::optional<std::string_view> uri_of(std::string_view prefix) const {
    for (size_t i = bindings_.size(); i-- > 0;) {
      if (bindings_[i].prefix == prefix) return bindings_[i].uri;
    }
    if (prefix == "xml") return xml_itself;
    return prefix.empty() ? std::optional(std::string_view()) : std::nullopt;
  }

  bool is_known(std::string_view uri) {
    if (uri.empty()) return true;
    if (drops_) {
      if (own_.empty()) own_ = uri;
      return uri == own_;
    }
    return std::ranges::find(known_, uri) != known_.end();
  }

  bool name(pugi::xml_node element) {
    const auto parts = split_xml_name(element.name());
    if (!parts) return false;
    const auto uri = uri_of(parts->prefix);
    if (!uri) return false;
    foreign_ = !is_known(*uri);
    if (foreign_) return drops_;
    // The name is copied first: the parser stores the new one in the same place.
    return parts->prefix.empty() || element.set_name(std::string(parts->local).c_str());
  }

  bool below(pugi::xml_node element) {
    if (foreign_) return true;
    for (pugi::xml_node child = element.first_child(); child;) {
      const pugi::xml_node next = child.next_sibling();
      if (child.type() == pugi::node_element) {
        if (!resolve(child)) return false;
        if (foreign_) element.remove_child(child);
        foreign_ = false;
      }
      child = next;
    }
    return true;
  }

  const std::span<const std::string_view> known_;
  const bool drops_;
  std::string own_;       // the document's own namespace, if others are dropped
  bool foreign_ = false;  // of the last named element
  std::vector<XmlBinding> bindings_;
};

}  // namespace

bool resolve_xml_names(pugi::xml_node root, std::span<const std::string_view> known) {
  return XmlNameResolver(known, false).resolve(root);
}

bool resolve_xml_reply_names(pugi::xml_node root) { return XmlNameResolver({}, true).resolve(root); }

}  // namespace verbena
