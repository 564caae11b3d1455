// The context of an HTTP verb: the request with bucket, key and query resolved, and its response.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/charge.h"
#include "memory/stream.h"
#include "rdma/dialect.h"
#include "s3/access/actions.h"
#include "s3/service.h"
#include "s3_http/options.h"
#include "s3_http/query.h"
#include "s3_http/request.h"

namespace verbena::s3 {

// A sink that records whether the head was sent, and whether the sink (not the store) failed.
class WatchedSink : public memory::Sink {
 public:
  explicit WatchedSink(memory::Sink& inner) : inner_(inner) {}
  Task<Result<void>> begin(uint64_t length) override;
  Result<memory::AtOnce> send_at_once(uint64_t length, memory::Pieces& pieces) override;
  Task<Result<void>> push(memory::Chunk chunk) override;
  Task<Result<void>> drained() override;
  Task<Result<void>> finish() override;
  bool begun() const { return begun_; }
  bool failed() const { return failed_; }

 private:
  memory::Sink& inner_;
  bool begun_ = false;
  bool failed_ = false;
};

struct Context {
  Service& service;
  rdma::Dialect* windows;
  const RouterOptions& options;
  const Request& request;
  Call& call;  // of the request
  const std::function<Headers()>& trailing;
  memory::Source& body;
  Response& response;
  WatchedSink sink;
  std::string bucket{}, key{};
  Query query{};
  const Action* action = nullptr;  // the action on the bucket that the router authorized; null: the verb does that
  // The bucket that it was authorized for, or that the verb has just made.
  std::optional<store::BucketMade> made{};
  Headers hoisted{};                      // x-amz-* in the query of a presigned URL instead of in headers
  Headers error_fields{};                 // further elements of <Error>
  Headers error_headers{};                // headers of an error response (Content-Range of a 416, ETag of a 304)
  bool control = false;                   // a call of S3 Control, whose errors have another form
  std::vector<memory::Charge> charged{};  // for the request's documents in memory
  std::vector<auth::Identity>
      replaced{};  // earlier identities, replaced by renew_caller(), whose principals may still be in use

  const Call& caller() const { return call; }
  // For changes of the bucket: another one that has got its name since then is not changed.
  store::NamedBucket made_bucket() const { return {std::string_view(bucket), made}; }
  std::optional<std::string_view> header(std::string_view name) const;
  void reply_header(std::string_view name, std::string_view value) { response.headers.emplace_back(name, value); }
  // 200 with an XML body.
  void reply_xml(std::string xml);
};

// Charges an answer of about this size to the peer's share, before it is made and until it is sent. Answers are
// complete before they are sent, so a client that reads slowly, or not at all, holds no more than its share. Waits for
// room; slow_down: for too long.
Task<Result<void>> reserve_answer(Context& context, size_t bytes);

// Looks the caller's key and rights up again, after the body has arrived.
Result<void> renew_caller(Context& context);

// Fills the outcome with what logs need besides the door's data. Moves the names out of the context.
void note_target(Context& context);

// 204 and no body.
void reply_no_content(Context& context);

// access_denied if the caller is allowed nothing of this kind on any object of the bucket. Checked before a document
// with names of objects is read, so that an unauthorized caller holds no memory and is not waited for.
Task<Result<void>> could_act_on_some(Context& context, const Action& action);
// The whole request body, at most `bytes_max` (entity_too_large), checked against Content-MD5 and x-amz-checksum-*.
// Charged to the peer until the request is done. slow_down: the peer's share is used up.
Task<Result<std::string>> read_text(Context& context, size_t bytes_max);
// The same for a request on an existing bucket. A body may take minutes: after it has arrived, the key is looked up and
// the request is authorized again. no_such_bucket if a new bucket has the name by then; errors as for a removed key.
Task<Result<std::string>> read_document(Context& context, size_t bytes_max);

}  // namespace verbena::s3
