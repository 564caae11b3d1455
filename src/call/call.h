// One request, from its arrival to its account: made by a door, carried by reference, closed by account().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "auth/auth.h"
#include "rdma/transport.h"

namespace verbena {
struct RequestTrace;
}

namespace verbena::call {

enum class Door : uint8_t { http, token, native };

using Pairs = std::span<const std::pair<std::string, std::string>>;

// The signature of a browser's form with a policy; none: the form has no policy.
enum class FormSignature : uint8_t { none, version2, version4 };

// Inputs of policy conditions besides the caller. The views belong to the request and are valid until its verb has
// returned.
struct Facts {
  bool http = false;  // sent over HTTP; else the fields below, except the time, are empty
  FormSignature form_signature = FormSignature::none;
  int64_t arrived_us = 0;            // the time for conditions; 0: now
  Pairs headers{};                   // names lower case; for a browser's form its fields
  Pairs hoisted{};                   // x-amz-* in the query of a presigned URL instead of in headers
  Pairs query{};                     // decoded
  const Facts* posted_by = nullptr;  // for a browser's form, which is served as a PUT: the facts of the POST

  // The first of that (lower-case) name.
  std::optional<std::string_view> header(std::string_view name) const {
    const auto value = find(headers, name);
    return value ? value : find(hoisted, name);
  }
  std::optional<std::string_view> in_query(std::string_view name) const { return find(query, name); }

 private:
  static std::optional<std::string_view> find(Pairs pairs, std::string_view name);
};

inline std::optional<std::string_view> Facts::find(Pairs pairs, std::string_view name) {
  for (const auto& [key, value] : pairs) {
    if (key == name) return value;
  }
  return std::nullopt;
}

struct Answered;
struct Details;
struct Observed;

// The record of a request in its bucket's log, if the bucket has one.
class BucketRecord {
 public:
  virtual ~BucketRecord() = default;
  // True if only an access control list allowed the request.
  virtual void set_acl_required() = 0;
  virtual void finish(const Answered& answered, const Details& details) = 0;
};

// One key of a DeleteObjects, for logs.
struct Deletion {
  std::string key, version_id, error_code;
  int status = 204;
};

// The operation and outcome of a request: filled by its verb, reported by the door when the answer was sent.
struct Outcome {
  std::string_view action{};  // as docs/s3.md names it; empty: not known
  std::string operation{};    // of another API than S3's: "iam:CreateUser"
  std::string bucket{}, key{}, version_id{};
  std::string source{};                               // of a copy or a rename: "bucket/key", perhaps with "?versionId="
  uint64_t in = 0, out = 0;                           // bytes of objects, of the request's body and of its answer
  rdma::Transport transport = rdma::Transport::http;  // of those
  bool by_token = false;                              // served by token, even if the object is empty and no byte moved
  uint64_t token_bytes = 0;                           // moved by one-sided operations on the token's window
  std::optional<uint64_t> object_size{};              // for the bucket's log
  std::vector<Deletion> deletions{};                  // filled if a log has a line for each
};

// The caller of a request and its connection. All requests of a session share it.
struct Caller {
  auth::Identity identity;
  Door door = Door::http;
  bool secure = false;       // TLS
  bool seals_rdma = false;   // RDMA moves this request's bytes only sealed: its token is of ofi1s
  std::string peer_address;  // IP without port
  // The user agent that a native client gave when it opened its session. Owned by the session, which outlives the
  // request. null: none, or another door.
  const std::string* user_agent = nullptr;
};

struct Call : Caller {
  std::string request_id{};       // 16 upper-case hex digits, unique per request
  RequestTrace* trace = nullptr;  // time by stage, owned by the door. null: not observed
  Facts facts{};
  Observed* observed = nullptr;  // owned by the door. null: not observed
  // Its records in the logs of its buckets, in the batch's order of buckets; empty: none has a log.
  std::vector<std::shared_ptr<BucketRecord>> records{};
  Outcome outcome{};

  // Whether a log or an observer needs its details.
  bool is_told() const { return observed != nullptr || !records.empty(); }
};

}  // namespace verbena::call
