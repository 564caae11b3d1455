#include "memory/whole_body.h"

#include <algorithm>

namespace verbena::memory {
namespace {

constexpr size_t first_step = 4 * KiB;  // for a body of unknown length: most documents are small

// One byte more than is left: the read that meets the end also returns the source's verdict.
size_t next_step(const std::optional<uint64_t>& size, size_t have) {
  if (!size) return std::clamp(have, first_step, Budget::unit);
  return static_cast<size_t>(std::min<uint64_t>(*size - std::min<uint64_t>(*size, have) + 1, Budget::unit));
}

}  // namespace

Task<Result<WholeBody>> read_whole(Source& body, Arena& arena, std::string_view peer, size_t bytes_max) {
  const auto size = body.size();
  if (size.value_or(0) > bytes_max) co_return fail(Errc::too_large, "body: declared length");
  Share share(arena, peer, size);
  WholeBody whole;
  for (;;) {
    VB_CO_TRY(co_await body.ready());
    const size_t have = whole.text.size();
    VB_CO_ASSIGN(Charge charge, co_await share.take(next_step(size, have)));
    const size_t step = std::min(next_step(size, have), charge.bytes());
    whole.charged.push_back(std::move(charge));
    whole.text.resize(have + step);
    const MutableBytes room = std::as_writable_bytes(std::span(whole.text)).subspan(have);
    VB_CO_ASSIGN(const size_t got, co_await body.read(room));
    whole.text.resize(have + got);
    if (whole.text.size() > bytes_max) co_return fail(Errc::too_large, "body");
    if (got < step) co_return whole;
  }
}

}  // namespace verbena::memory
