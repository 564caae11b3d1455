// Routes an S3 request to its verb, and turns the outcome into a response.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rdma/dialect.h"
#include "s3/service.h"
#include "s3_http/options.h"
#include "s3_http/request.h"

namespace verbena::s3 {

struct Context;

class Router {
 public:
  using Options = RouterOptions;
  // `windows` serves x-amz-rdma-token; nullptr when RDMA is off (every token is then declined).
  Router(Service& service, rdma::Dialect* windows, Options options);

  // Serves one request. Fills `response` completely before `sink.begin()`; if the sink is never begun, the door sends
  // `response` with its body. Never fails: every error becomes a response with AWS's XML. After a begun sink failed,
  // returns false and the door cuts the connection (a shorter body must not look whole).
  // `trailing` is called after the source has ended and gives its trailers (aws-chunked); may be null.
  Task<bool> handle(Request& request, memory::Source& body, std::function<Headers()> trailing, Response& response,
                    memory::Sink& sink);

  // Serves a plain GET or HEAD of an object in memory without waiting. nullopt: call handle() next; nothing was sent,
  // and `response` is empty. Else `response` describes what was sent; if the sink has not accepted all of it at once,
  // `rest` sends the remainder, and if `reply` is set, the door sends `response`. If `rest` fails before the sink was
  // begun, the error must still be answered.
  struct Sent {
    bool whole = true;
    std::optional<Task<Result<void>>> rest{};
  };
  std::optional<Sent> try_handle(Request& request, memory::Source& body, Response& response, memory::Sink& sink);

  // Fills `response` with the error of a request that is not routed (for its signature, or its body's framing), with
  // the CORS headers for an allowed origin. `body` and `sink` are not used.
  Task<void> refuse(Request& request, Error error, memory::Source& body, Response& response, memory::Sink& sink);

 private:
  static const std::function<Headers()> no_trailers;
  Context context_of(Request& request, const std::function<Headers()>& trailing, memory::Source& body,
                     Response& response, memory::Sink& sink);

  Service& service_;
  rdma::Dialect* windows_;
  Options options_;
};

}  // namespace verbena::s3
