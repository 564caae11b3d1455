// Attributes of a principal besides its name and its policies: its tags, and the claims of the identity provider by
// which it signed in. Conditions and variables of policies read them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::auth {

// IAM preserves the case of names and of tags' keys, but treats "Alice" and "alice" as one.
struct NameOrder {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};

struct Attributes {
  std::map<std::string, std::string, NameOrder> tags;  // aws:PrincipalTag/KEY
  std::vector<std::string> transitive;  // keys of tags that are passed on to a role that the session assumes
  std::string source_identity;          // aws:SourceIdentity; empty: none
  // By condition key, as in Facts: "idp.example.org/realm:sub".
  std::map<std::string, std::vector<std::string>, std::less<>> claims;

  bool empty() const { return tags.empty() && transitive.empty() && source_identity.empty() && claims.empty(); }
  bool operator==(const Attributes&) const = default;
};

// A session's attributes: its own, and its role's tags under other keys. Null: none.
std::shared_ptr<const Attributes> joined(const std::shared_ptr<const Attributes>& of_role, const Attributes& own);

}  // namespace verbena::auth
