// A call of IAM, STS or the admin API over HTTP: body, signature, service, answer. Internal to http/.
#pragma once

#include "http/serving.h"

namespace verbena::http {

// The API of a request; none: S3.
iam::Api api_of(const HandlerContext& context, const Exchange& exchange);

Task<void> serve_call(HandlerContext& context, iam::Api api, Exchange& exchange, call::Call& call,
                      s3::Response& response);

}  // namespace verbena::http
