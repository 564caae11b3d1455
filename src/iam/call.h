// One call of IAM or STS in progress.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/identity_store.h"
#include "iam/parameters.h"
#include "iam/surroundings.h"
#include "s3/types.h"
#include "s3/xml.h"

namespace verbena::iam {

// The object of a call, and so the resource that it is authorized for.
enum class Target : uint8_t {
  none,
  user,
  own_user,  // the caller, unless UserName names another
  group,
  role,
  policy,  // PolicyArn
  new_policy,
  open_id_provider,  // OpenIDConnectProviderArn, or Url of a new one
};

struct Call;

struct Action {
  std::string_view name;
  Target target;
  std::string_view parameters;  // the accepted ones, between spaces; others are refused
  Result<void> (*serve)(Call&);
};

struct Call {
  auth::IdentityStore& store;
  const Surroundings& around;
  const s3::Call& caller;
  const auth::AccessKey& key;  // the signing key
  const Parameters& parameters;
  const Action& action;
  auth::AccountEntryPtr account;                // the caller's, as at the beginning of the call
  s3::XmlWriter& xml;                           // of the result
  std::string& message;                         // of an error, replacing its context
  const auth::Attributes* passed_on = nullptr;  // attributes of the session that it requests
  auth::TagMap tags{};                          // that it sets
  std::vector<std::string> untagged{};          // keys of tags that it removes
  const auth::TagMap* item_tags = nullptr;      // of the item that it concerns, before it; null: there is none
  auth::PrincipalPtr assumed{};                 // the role's session that it made; null: none

  const auth::Principal& principal() const { return *key.principal; }
  std::string_view get(std::string_view name) const { return parameters.get_or_empty(name); }
  int64_t now_s() const { return around.clock.now_s(); }

  [[nodiscard]] std::unexpected<Error> refuse(Errc code, std::string text) const {
    message = std::move(text);
    return fail(code, "iam");
  }
  // "The user with name alice cannot be found."
  [[nodiscard]] std::unexpected<Error> missing(std::string_view kind, std::string_view name) const;
  [[nodiscard]] std::unexpected<Error> exists(std::string_view kind, std::string_view name) const;
  [[nodiscard]] std::unexpected<Error> too_many(std::string_view what, size_t max) const;

  // Parameters by IAM's rules; validation_error.
  Result<std::string> name(std::string_view parameter, size_t size_max) const;
  Result<std::string> path() const;  // "/" if missing
  Result<int64_t> number(std::string_view parameter, int64_t min, int64_t max, int64_t fallback) const;
  // The policy without blanks. malformed_policy_document; limit_exceeded when more than `bytes_max` are left.
  Result<auth::PolicyDocument> document(std::string_view parameter, auth::PolicyKind kind, size_t bytes_max) const;
  Result<std::string> description() const;

  // Changes the caller's account. Blocks.
  Result<void> change(const std::function<Result<void>(auth::AccountEntry&)>& edit) const {
    return store.change_account(account->account->id, edit);
  }

  // The parameter that names a user, a group, a role; "" for others.
  std::string_view target_name() const;
};

// JSON without the blanks between its tokens. Documents are stored so: blanks do not count towards their size, so they
// are not stored.
std::string without_blanks(std::string_view json);
void write_date(s3::XmlWriter& xml, std::string_view element, int64_t seconds);

// One page of a list: <Element><member>...</member></Element><IsTruncated>, and a <Marker>, the name after which the
// next page begins. `items` is ordered by name; name_of(item) is its name.
template <class Items, class NameOf, class Wanted, class Show>
Result<void> write_page(Call& call, std::string_view element, const Items& items, NameOf name_of, Wanted wanted,
                        Show show) {
  VB_ASSIGN(const int64_t max, call.number("MaxItems", 1, 1000, 100));
  const std::string_view marker = call.get("Marker");
  const auth::NameOrder before;
  std::string last;
  int64_t shown = 0;
  bool more = false;
  call.xml.open(element);
  for (const auto& item : items) {
    if ((!marker.empty() && !before(marker, name_of(item))) || !wanted(item)) continue;
    if (shown == max) {
      more = true;
      break;
    }
    show(item);
    last = name_of(item);
    ++shown;
  }
  call.xml.close();
  call.xml.element("IsTruncated", more);
  if (more) call.xml.element("Marker", last);
  return {};
}

}  // namespace verbena::iam
