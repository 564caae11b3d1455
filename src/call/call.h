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

// The signature of a browser's form, which has a policy; none: a form without one.
enum class FormSignature : uint8_t { none, version2, version4 };

// What conditions of policies are judged by, beside the caller. The views are the request's: valid until its verb has
// returned.
struct Facts {
  bool http = false;  // sent over HTTP. Else all below but the time is empty
  FormSignature form_signature = FormSignature::none;
  int64_t arrived_us = 0;            // conditions on time are judged by it; 0: now
  Pairs headers{};                   // names lower case; of a browser's form its fields
  Pairs hoisted{};                   // x-amz-* that a presigned URL carries in its query instead of in headers
  Pairs query{};                     // decoded
  const Facts* posted_by = nullptr;  // of a browser's form, which is served as a PUT: those of the POST

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

// Record of a request in the log of its bucket, where the bucket has one.
class BucketRecord {
 public:
  virtual ~BucketRecord() = default;
  // The request was allowed by an access control list alone.
  virtual void set_acl_required() = 0;
  virtual void finish(const Answered& answered, const Details& details) = 0;
};

// One key of a DeleteObjects, as logs tell it.
struct Deletion {
  std::string key, version_id, error_code;
  int status = 204;
};

// What a request asked for, and what became of it: filled by its verb, told by the door when the answer is out.
struct Outcome {
  std::string_view action{};  // as docs/s3.md names it; empty: not known
  std::string operation{};    // of another API than S3's: "iam:CreateUser"
  std::string bucket{}, key{}, version_id{};
  std::string source{};                               // of a copy or a rename: "bucket/key", perhaps with "?versionId="
  uint64_t in = 0, out = 0;                           // bytes of objects, of the request's body and of its answer
  rdma::Transport transport = rdma::Transport::http;  // of those
  bool by_token = false;                              // served as a token asked, which moves no byte of an empty object
  uint64_t token_bytes = 0;                           // moved by one-sided operations on the token's window
  std::optional<uint64_t> object_size{};              // for the bucket's log
  std::vector<Deletion> deletions{};                  // where a log is to tell of each
};

// Who sends a request, and which way. Of a session that is the same for all its requests.
struct Caller {
  auth::Identity identity;
  Door door = Door::http;
  bool secure = false;       // TLS
  std::string peer_address;  // IP without port
  // At the native door: the client's name of itself when it signed in. Belongs to its session, which outlives the
  // request. null: none, or not the native door.
  const std::string* user_agent = nullptr;
};

struct Call : Caller {
  std::string request_id{};       // 16 upper-case hex digits, unique per request
  RequestTrace* trace = nullptr;  // time by stage; the door's. null: no observer wants it
  Facts facts{};
  Observed* observed = nullptr;  // the door's. null: no observer wants it
  // In the logs of its buckets, by the buckets' places in a batch; empty: none has a log.
  std::vector<std::shared_ptr<BucketRecord>> records{};
  Outcome outcome{};

  // Whether a log or an observer is told of it.
  bool is_told() const { return observed != nullptr || !records.empty(); }
};

}  // namespace verbena::call
