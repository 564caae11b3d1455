#include "admin/packed.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/text.h"

namespace verbena::admin {
namespace {

// Thousandths of "q=0.123"; 1000 without a weight, 0 for an invalid one.
int weight_of(std::string_view parameters) {
  while (!parameters.empty()) {
    const size_t end = std::min(parameters.find(';'), parameters.size());
    const std::string parameter = lower(trim(parameters.substr(0, end)));
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
    if (!parameter.starts_with("q=")) continue;
    const std::string_view number = std::string_view(parameter).substr(2);
    if (number.empty() || (number[0] != '0' && number[0] != '1')) return 0;
    if (number.size() > 1 && number[1] != '.') return 0;
    int weight = (number[0] - '0') * 1000, unit = 100;
    for (const char c : number.substr(std::min<size_t>(2, number.size()))) {
      if (c < '0' || c > '9') return 0;
      weight += (c - '0') * unit;
      unit /= 10;
    }
    return std::min(weight, 1000);
  }
  return 1000;
}

}  // namespace

bool wants_gzip(std::string_view accept_encoding) {
  std::optional<int> gzip, identity, any;
  while (!accept_encoding.empty()) {
    const size_t end = std::min(accept_encoding.find(','), accept_encoding.size());
    const std::string_view one = accept_encoding.substr(0, end);
    accept_encoding.remove_prefix(std::min(end + 1, accept_encoding.size()));
    const size_t parameters = std::min(one.find(';'), one.size());
    const std::string coding = lower(trim(one.substr(0, parameters)));
    const int weight = weight_of(one.substr(std::min(parameters + 1, one.size())));
    if (coding == "gzip" || coding == "x-gzip") gzip = std::max(gzip.value_or(0), weight);
    if (coding == "identity") identity = weight;
    if (coding == "*") any = weight;
  }
  const int packed = gzip.value_or(any.value_or(0));
  return packed > 0 && packed >= identity.value_or(0);
}

Result<std::string> gunzip(std::string_view gzip, size_t bytes_max) {
  // The last four bytes are the file's length (RFC 1952). The output is bounded by that.
  if (gzip.size() < 18) return fail(Errc::malformed, "gzip: too short");
  size_t size = 0;
  for (size_t i = 4; i-- > 0;) size = size << 8 | static_cast<unsigned char>(gzip[gzip.size() - 4 + i]);
  if (size > bytes_max) return fail(Errc::malformed, "gzip: too large");
  std::string file(size + 1, '\0');  // one more: detects a stream that continues past the length
  const auto state = std::make_unique<inflate_state>();
  isal_inflate_init(state.get());
  state->crc_flag = ISAL_GZIP;
  // The library does not write to what it reads.
  state->next_in = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(gzip.data()));
  state->avail_in = static_cast<uint32_t>(gzip.size());
  state->next_out = reinterpret_cast<uint8_t*>(file.data());
  state->avail_out = static_cast<uint32_t>(file.size());
  const int code = isal_inflate(state.get());
  if (code != ISAL_DECOMP_OK || state->block_state != ISAL_BLOCK_FINISH || state->avail_out != 1) {
    return fail(Errc::malformed, "gzip: not whole");
  }
  file.resize(size);
  return file;
}

}  // namespace verbena::admin
