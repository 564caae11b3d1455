// The values behind the condition keys of policies, for one request.
#pragma once

#include <string_view>

#include "auth/policy.h"
#include "s3/access/authorize.h"

namespace verbena::s3 {

class RequestFacts final : public auth::Facts {
 public:
  // The arguments must outlive it. `owner_id`: the account that owns the bucket.
  RequestFacts(const Service& service, const Call& caller, std::string_view owner_id, const Asked& asked)
      : service_(service), caller_(caller), owner_id_(owner_id), asked_(asked) {}
  bool find(std::string_view key, auth::FactValues& values) const override;

 private:
  bool find_express(std::string_view key, auth::FactValues& values) const;
  bool find_copy_source(auth::FactValues& values) const;
  std::optional<std::string> write_fact(std::string_view key) const;
  std::optional<std::string> connection_fact(std::string_view key) const;
  std::optional<std::string> signature_fact(std::string_view key) const;
  std::optional<std::string> listing_fact(std::string_view key) const;
  std::optional<std::string> lock_fact(std::string_view key) const;
  std::optional<std::string> header_fact(std::string_view key) const;
  std::optional<std::string> payload_fact() const;
  std::optional<std::string> header(std::string_view name) const;
  int64_t now_us() const;

  const Service& service_;
  const Call& caller_;
  std::string_view owner_id_;
  const Asked& asked_;
};

}  // namespace verbena::s3
