// GET /-/health, which load balancers ask of whichever port they send requests to.
#pragma once

#include <string_view>

#include "s3_http/request.h"

namespace verbena::http {

bool asks_health(std::string_view method, std::string_view path);

// 200 `ok`, or 503 `stopping` if the server accepts no more requests.
void answer_health(std::string_view method, bool stopping, s3::Response& response);

}  // namespace verbena::http
