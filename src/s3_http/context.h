// What an HTTP verb works on: the request with bucket, key and query already resolved, and where its answer goes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/charge.h"
#include "memory/stream.h"
#include "rdma/token_windows.h"
#include "s3/access/actions.h"
#include "s3/service.h"
#include "s3_http/options.h"
#include "s3_http/query.h"
#include "s3_http/request.h"

namespace verbena::s3 {

// A sink that remembers what became of it: whether the head is out, and whether the sink (not the store) failed.
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

// A source that remembers whether it was the one to fail.
class WatchedSource : public memory::Source {
 public:
  explicit WatchedSource(memory::Source& inner) : inner_(inner) {}
  std::optional<uint64_t> size() const override { return inner_.size(); }
  Task<Result<size_t>> read(MutableBytes into) override;
  uint64_t arrived() const override { return inner_.arrived(); }
  bool failed() const { return failed_; }

 private:
  memory::Source& inner_;
  bool failed_ = false;
};

struct Context {
  Service& service;
  rdma::TokenWindows* windows;
  const RouterOptions& options;
  const Request& request;
  Call& call;  // of the request
  const std::function<Headers()>& trailing;
  memory::Source& body;
  Response& response;
  WatchedSink sink;
  std::string bucket{}, key{};
  Query query{};
  const Action* action = nullptr;  // on the bucket, that the request was admitted for; null: its verb asks by itself
  Headers hoisted{};               // x-amz-* that a presigned URL carries in its query instead of in headers
  Headers error_fields{};          // extra elements of <Error>, added by whoever knows them
  Headers error_headers{};         // headers that an error response keeps (Content-Range of a 416, ETag of a 304)
  bool control = false;            // of S3 Control, whose errors have a form of their own
  std::vector<memory::Charge> charged{};   // for what is held of the request's documents
  std::vector<auth::Identity> replaced{};  // by renew_caller(), whose principals may still be in use

  const Call& caller() const { return call; }
  std::optional<std::string_view> header(std::string_view name) const;
  void reply_header(std::string_view name, std::string_view value) { response.headers.emplace_back(name, value); }
  // 200 with an XML body.
  void reply_xml(std::string xml);
};

// Before an answer of about so many bytes is made: room for it in the caller's share, which he has until the answer is
// sent. Answers are made whole, so who takes his slowly, or not at all, holds no more of them than his share. Waits its
// turn; slow_down: for too long.
Task<Result<void>> reserve_answer(Context& context, size_t bytes);

// Looks the caller up again, as its key and rights are now that the body has come.
Result<void> renew_caller(Context& context);

// What the logs say of a request beyond what the door knows. Takes the names out of the context.
void note_target(Context& context);

// 204 and no body.
void reply_no_content(Context& context);

// access_denied: nothing of this kind is allowed to the caller on any object of the bucket. Asked before a document is
// read that names the objects: who may do nothing here is not waited for, and holds no memory.
Task<Result<void>> could_act_on_some(Context& context, const Action& action);
// The whole request body, at most `bytes_max` (entity_too_large), checked against Content-MD5 and x-amz-checksum-*.
// Charged to the peer until the request is done. slow_down: too much of his is held already.
Task<Result<std::string>> read_text(Context& context, size_t bytes_max);
// The same, of a request that is about a bucket that is there. A body may take minutes: when it has come, the key is
// looked up again, and what the request was admitted for is asked for again. no_such_bucket when another bucket has the
// name by then; what a request gets whose key there is not.
Task<Result<std::string>> read_document(Context& context, size_t bytes_max);

}  // namespace verbena::s3
