#include "auth/limits.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <mutex>

namespace verbena::auth {
namespace {

using Json = nlohmann::json;

// Limits with rates come and go seldom: with their quotas.
void count_rates(int change) {
  static std::mutex mutex;
  static int count = 0;
  const std::lock_guard lock(mutex);
  count += change;
  rates_in_use.store(count != 0, std::memory_order_relaxed);
}

struct QuotaField {
  const char* name;
  std::optional<uint64_t> Quota::* value;
  uint64_t min, max;
};
constexpr QuotaField quota_fields[] = {{"bytes", &Quota::bytes, 0, quota_max},
                                       {"objects", &Quota::objects, 0, quota_max},
                                       {"requests_per_second", &Quota::requests_per_s, 1, rate_max},
                                       {"bytes_per_second", &Quota::bytes_per_s, bytes_per_s_min, rate_max}};

constexpr size_t quota_text_max = 4096;

}  // namespace

Result<Quota> parse_quota(std::string_view text) {
  if (text.size() > quota_text_max) return fail(Errc::invalid_argument, "A quota is a short JSON object.");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return fail(Errc::invalid_argument, "A quota is a JSON object.");
  Quota quota;
  for (const auto& [name, value] : json.items()) {
    const auto field = std::ranges::find_if(quota_fields, [&](const QuotaField& f) { return name == f.name; });
    if (field == std::end(quota_fields)) {
      return fail(Errc::invalid_argument,
                  "A quota has bytes, objects, requests_per_second and bytes_per_second, and nothing else.");
    }
    if (!value.is_number_unsigned()) {
      return fail(Errc::invalid_argument, "The limits of a quota are whole numbers, not below 0.");
    }
    const auto number = value.get<uint64_t>();
    if (number < field->min || number > field->max) {
      return fail(Errc::invalid_argument,
                  "Limits are: bytes and objects up to 2^62, 1 to 10^12 requests a second, 1024 to 10^12 bytes a "
                  "second.");
    }
    quota.*field->value = number;
  }
  return quota;
}

std::string quota_text(const Quota& quota) {
  Json json = Json::object();
  for (const QuotaField& field : quota_fields) {
    if (quota.*field.value) json[field.name] = *(quota.*field.value);
  }
  return json.dump();
}

int64_t Meter::cost_ns(uint64_t n, uint64_t rate) {
  constexpr uint64_t longest_s = uint64_t{36'500} * 86'400;  // a hundred years: sums stay far from overflowing
  const uint64_t whole_s = std::min(n / rate, longest_s);
  const double rest_ns = static_cast<double>(n % rate) * 1e9 / static_cast<double>(rate);
  return static_cast<int64_t>(whole_s) * 1'000'000'000 + static_cast<int64_t>(rest_ns);
}

uint64_t Meter::wait_ns(int64_t now_ns) const {
  const int64_t ahead = until_ns_.load(std::memory_order_relaxed) - now_ns;
  return ahead < burst_ns ? 0 : static_cast<uint64_t>(ahead - burst_ns + 1);
}

uint64_t Meter::take(uint64_t n, uint64_t rate, int64_t now_ns) {
  constexpr int64_t furthest = int64_t{1} << 62;
  int64_t until = until_ns_.load(std::memory_order_relaxed);
  for (;;) {
    const int64_t from = std::max(until, now_ns);
    if (from - now_ns >= burst_ns) return static_cast<uint64_t>(from - now_ns - burst_ns + 1);
    const int64_t next = std::min(from, furthest) + cost_ns(n, rate);
    if (until_ns_.compare_exchange_weak(until, next, std::memory_order_relaxed)) return 0;
  }
}

int64_t Meter::charge(uint64_t n, uint64_t rate, int64_t now_ns) {
  constexpr int64_t furthest = int64_t{1} << 62;
  int64_t until = until_ns_.load(std::memory_order_relaxed);
  int64_t next = 0;
  do {
    next = std::min(std::max(until, now_ns), furthest) + cost_ns(n, rate);
  } while (!until_ns_.compare_exchange_weak(until, next, std::memory_order_relaxed));
  return next;
}

void Meter::untake(uint64_t n, uint64_t rate) { until_ns_.fetch_sub(cost_ns(n, rate), std::memory_order_relaxed); }

// Later charges are queued after this one and move forward.
void Meter::give_back(uint64_t n, uint64_t rate, int64_t paid_ns, int64_t now_ns) {
  if (paid_ns <= now_ns) return;
  until_ns_.fetch_sub(std::min(cost_ns(n, rate), paid_ns - now_ns), std::memory_order_relaxed);
}

Limits::Limits(Quota quota) : quota_(quota) {}

std::optional<Limits::Claim> Limits::claim(uint64_t bytes, uint64_t objects) const {
  if ((quota_.bytes && bytes > *quota_.bytes) || (quota_.objects && objects > *quota_.objects)) return std::nullopt;
  Claim claim{.bytes = bytes, .objects = objects};
  claim.all_bytes = bytes + reserved_bytes_.fetch_add(bytes, std::memory_order_acq_rel);
  claim.all_objects = objects + reserved_objects_.fetch_add(objects, std::memory_order_acq_rel);
  return claim;
}

bool Limits::fits(const Claim& claim, uint64_t held_bytes, uint64_t held_objects) const {
  const auto within = [](const std::optional<uint64_t>& limit, uint64_t wanted, uint64_t held, uint64_t reserved) {
    return !limit || wanted == 0 || (held <= *limit && reserved <= *limit - held);
  };
  return within(quota_.bytes, claim.bytes, held_bytes, claim.all_bytes) &&
         within(quota_.objects, claim.objects, held_objects, claim.all_objects);
}

void Limits::release(uint64_t bytes, uint64_t objects) const {
  reserved_bytes_.fetch_sub(bytes, std::memory_order_acq_rel);
  reserved_objects_.fetch_sub(objects, std::memory_order_acq_rel);
}

uint64_t Limits::admit(uint64_t n, int64_t now_ns) const {
  if (quota_.bytes_per_s) {
    if (const uint64_t wait = bytes_.wait_ns(now_ns); wait != 0) return wait;
  }
  return quota_.requests_per_s ? requests_.take(n, *quota_.requests_per_s, now_ns) : 0;
}

void Limits::withdraw(uint64_t n) const {
  if (quota_.requests_per_s) requests_.untake(n, *quota_.requests_per_s);
}

int64_t Limits::charge(uint64_t bytes, int64_t now_ns) const {
  return quota_.bytes_per_s ? bytes_.charge(bytes, *quota_.bytes_per_s, now_ns) : 0;
}

void Limits::give_back(uint64_t bytes, int64_t paid_ns, int64_t now_ns) const {
  if (quota_.bytes_per_s) bytes_.give_back(bytes, *quota_.bytes_per_s, paid_ns, now_ns);
}

LimitsPtr make_limits(const Quota& quota, const LimitsPtr& before) {
  if (quota.empty()) return nullptr;
  if (before != nullptr && before->quota() == quota) return before;
  if (!quota.requests_per_s && !quota.bytes_per_s) return std::make_shared<const Limits>(quota);
  auto made = std::make_unique<const Limits>(quota);
  count_rates(1);
  const auto end = [](const Limits* limits) {
    delete limits;
    count_rates(-1);
  };
  return {made.release(), end};
}

}  // namespace verbena::auth
