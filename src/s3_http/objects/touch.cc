// PUT ?verbena-touch: renews the end of an object (x-verbena-ttl) without touching its bytes.
#include <string>

#include "s3_http/objects/versions.h"
#include "s3_http/verbs.h"
#include "store/ends.h"

namespace verbena::s3 {

// With x-verbena-ttl the object gets that TTL, without it lives for its own one again.
Task<Result<void>> serve_touch_object(Context& context) {
  VB_CO_TRY(co_await could_change(context, action::put_object));
  VB_CO_ASSIGN(const std::string body, co_await read_document(context, 1));
  if (!body.empty()) co_return fail(Errc::invalid_request, "verbena-touch has no body.");
  const auto ttl = context.header(store::ttl_header);
  if (ttl && !store::parse_ttl(*ttl)) co_return fail(Errc::invalid_argument, "x-verbena-ttl");
  store::ObjectChange change;
  change.attributes.emplace_back(store::touch_attribute, ttl ? *ttl : store::touch_again);
  co_return co_await update_version(context, action::put_object, std::move(change));
}

}  // namespace verbena::s3
