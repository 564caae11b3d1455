#include "rdma/dialect.h"

#include <algorithm>
#include <array>

#include "base/metrics.h"

namespace verbena::rdma {
namespace {

constexpr std::array<FormTraits, token_forms> form_traits{{
    {"ofi1", "token: ofi1 is not served", 501, nullptr},
    {"ofi1s", "token: ofi1s is not served", 501, nullptr},
    {"ofi1_raw", "token: keys longer than 8 bytes are not served", 501, nullptr},
    {"cuobject", "token: dynamically connected queue pairs are not served (rdma.token_provider: dc)", 200, nullptr},
    {"cuobject_rc", "token: reliable connections are not served (rdma.token_provider: rc)", 501, nullptr},
    {"hipobj", "token: hipObject's token belongs to /.hipobj-rc/prepare", 501, "unsupported"},
    {"unknown", "token: of no known dialect", 501, nullptr},
}};

struct DialectCounters {
  std::array<metrics::Counter*, token_forms> moved{}, declined{}, failed{};
  DialectCounters() {
    constexpr const char* help =
        "Tokens by dialect: whether the bytes moved by RDMA, the token was declined, or its transfer failed";
    constexpr const char* name = "verbena_rdma_dialect_tokens_total";
    for (size_t i = 0; i < token_forms; ++i) {
      const std::string dialect(form_traits[i].name);
      moved[i] = &metrics::counter(name, help, {{"dialect", dialect}, {"outcome", "moved"}});
      declined[i] = &metrics::counter(name, help, {{"dialect", dialect}, {"outcome", "declined"}});
      failed[i] = &metrics::counter(name, help, {{"dialect", dialect}, {"outcome", "failed"}});
    }
  }
};

DialectCounters& dialect_counters() {
  static DialectCounters all;
  return all;
}

}  // namespace

const FormTraits& traits_of(TokenForm form) { return form_traits[static_cast<size_t>(form)]; }

void register_dialect_metrics() { dialect_counters(); }
void count_moved(TokenForm form) { dialect_counters().moved[static_cast<size_t>(form)]->add(); }
void count_failed(TokenForm form) { dialect_counters().failed[static_cast<size_t>(form)]->add(); }
void count_declined(TokenForm form) { dialect_counters().declined[static_cast<size_t>(form)]->add(); }

Dialect* Dialects::find(TokenForm form) const {
  const auto found = std::ranges::find_if(all_, [&](const Dialect* one) { return one->serves(form); });
  return found == all_.end() ? nullptr : *found;
}

Task<Result<std::unique_ptr<fabric::Window>>> Dialects::open(const Token& token, TokenClient client,
                                                             fabric::Access access) {
  Dialect* const dialect = find(token.form);
  if (dialect == nullptr) co_return fail(Errc::rdma_not_supported, traits_of(token.form).unserved);
  co_return co_await dialect->open(token, client, access);
}

}  // namespace verbena::rdma
