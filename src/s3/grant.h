// The elements of access control lists.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::s3 {

enum class Permission : uint8_t { none, read, write, read_acp, write_acp, full_control };

struct Grant {
  enum class To : uint8_t { account, all_users, authenticated_users, log_delivery };
  To to = To::account;
  std::string account{};  // canonical id; empty for groups
  Permission permission = Permission::full_control;
  bool operator==(const Grant&) const = default;
};

struct Acl {
  std::string owner;  // canonical id
  std::vector<Grant> grants;
  bool operator==(const Acl&) const = default;
};

inline constexpr size_t grants_max = 100;  // AWS

// The ACL that a request asks for, before the owner of its new object or bucket is known: x-amz-acl or x-amz-grant-*.
struct AclWish {
  std::string canned{};         // empty: none
  std::vector<Grant> grants{};  // from the headers
  bool any() const { return !canned.empty() || !grants.empty(); }
};

}  // namespace verbena::s3
