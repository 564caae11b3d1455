// S3 over HTTP: from an exchange to a request that the router serves.
#pragma once

#include <atomic>

#include "auth/auth.h"
#include "auth/auth_failures.h"
#include "auth/network_rules.h"
#include "base/clock.h"
#include "call/access_log.h"
#include "http/server.h"
#include "iam/service.h"
#include "memory/arena.h"
#include "observe/request_watch.h"
#include "observe/tracer.h"
#include "s3_http/routing/router.h"

namespace verbena::http {

struct S3HandlerOptions {
  call::AccessLog* access_log = nullptr;         // nullptr: none
  observe::RequestWatch* watch = nullptr;        // live view of requests; nullptr: none
  observe::Tracer* tracer = nullptr;             // traces some requests; nullptr: none
  const WallClock* clock = nullptr;              // nullptr: the machine's
  iam::Service* iam = nullptr;                   // nullptr: no IAM, STS and admin API; their calls are treated as S3's
  memory::Arena* arena = nullptr;                // with the budget for bodies of calls; set if `iam` is
  std::string domain = {};                       // for virtual hosts: a bucket's host has no such calls
  auth::AuthFailures* auth_failures = nullptr;   // counts wrong signatures; null: not counted
  const std::atomic<bool>* stopping = nullptr;   // for /-/health; nullptr: never stopping
  const auth::NetworkRules* networks = nullptr;  // from where callers may come, and how; nullptr: no rules
  std::optional<size_t> network_entry = {};  // clients for whom another entry decides are refused; none: all are served
};

// Authenticates, unwraps the payload (signed hash, aws-chunked), calls the router (or IAM), writes the access log and
// the metrics. All arguments must outlive the connections that the handler serves. One handler may serve all cores.
Handler make_s3_handler(const auth::Verifier& verifier, s3::Router& router, S3HandlerOptions options = {});

}  // namespace verbena::http
