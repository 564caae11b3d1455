// What is known of a principal besides its name and its policies: its tags, and what an identity provider said of
// somebody who signed in by it. Conditions and variables of policies ask for it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::auth {

// IAM keeps the case of names and of tags' keys, but "Alice" and "alice" are one.
struct NameOrder {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};

struct Attributes {
  std::map<std::string, std::string, NameOrder> tags;  // aws:PrincipalTag/KEY
  std::vector<std::string> transitive;  // keys of tags that go along into a role that the session assumes
  std::string source_identity;          // aws:SourceIdentity; empty: none
  // By condition keys as Facts name them: "idp.example.org/realm:sub".
  std::map<std::string, std::vector<std::string>, std::less<>> claims;

  bool empty() const { return tags.empty() && transitive.empty() && source_identity.empty() && claims.empty(); }
  bool operator==(const Attributes&) const = default;
};

// A session's: its own, and of its role's tags those that it has none of its own for. Null: there are none.
std::shared_ptr<const Attributes> joined(const std::shared_ptr<const Attributes>& of_role, const Attributes& own);

}  // namespace verbena::auth
