#include "store/rados/inspect/repair.h"

#include <algorithm>
#include <cerrno>
#include <map>

#include "store/rados/inspect/row_survey.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr int reads_max = 50;  // of a bucket that others are changing
constexpr std::chrono::seconds look_at_signs_every{1};

uint64_t incarnation_of(uint64_t blob) { return blob >> 32; }

}  // namespace

Result<Repaired> Repair::run() {
  VB_ASSIGN(std::vector<Stripe> stripes, list_stripes());
  VB_TRY(list_tablets());
  // First without blocking servers: usually nothing needs repair, and if a bucket has lost an object nothing is done.
  VB_TRY(engine_.run(keep_named(stripes)));
  VB_TRY(engine_.run(keep_named_tablets()));
  VB_TRY(engine_.run(remove_strays()));
  if (!stripes.empty()) VB_TRY(engine_.run(keep_of_living(stripes)));
  if (stripes.empty()) return repaired_;
  VB_ASSIGN(const std::set<uint64_t> names, engine_.run(read_names()));
  for (const Stripe& stripe : stripes) {
    if (!names.contains(stripe.blob)) VB_TRY(engine_.run(remove(stripe)));
  }
  return repaired_;
}

Result<std::vector<Repair::Stripe>> Repair::list_stripes() {
  std::vector<Stripe> stripes;
  librados::IoCtx& pool = cluster_.context(Pool::data);
  try {
    for (auto it = pool.nobjects_begin(); it != pool.nobjects_end(); ++it) {
      if (const auto stripe = parse_stripe(it->get_oid())) stripes.push_back({stripe->first, stripe->second});
    }
  } catch (const std::exception&) {  // librados's iterator throws
    return fail(Errc::service_unavailable, "The Ceph cluster did not list its objects.");
  }
  return stripes;
}

Result<void> Repair::list_tablets() {
  librados::IoCtx& pool = cluster_.context(Pool::index);
  try {
    for (auto it = pool.nobjects_begin(); it != pool.nobjects_end(); ++it) {
      if (const auto tablet = parse_tablet(it->get_oid())) strays_[tablet->first].insert(tablet->second);
    }
  } catch (const std::exception&) {
    return fail(Errc::service_unavailable, "The Ceph cluster did not list its objects.");
  }
  return {};
}

Task<Result<void>> Repair::keep_named_tablets() {
  for (auto bucket = strays_.begin(); bucket != strays_.end();) {
    const auto state = co_await registry_.load(bucket->first);
    if (!state && !(state.error() == Errc::no_such_bucket)) co_return std::unexpected(state.error());
    // The bucket is being created or swept.
    if (!state) bucket->second.clear();
    if (state) {
      for (const Tablet& tablet : (*state)->tablets) bucket->second.erase(tablet.number);
      for (const uint64_t joined : (*state)->joined) bucket->second.erase(joined);
    }
    bucket = bucket->second.empty() ? strays_.erase(bucket) : std::next(bucket);
  }
  co_return Result<void>{};
}

Task<Result<void>> Repair::remove_strays() {
  for (const auto& [bucket, numbers] : strays_) {
    std::set<uint64_t> names;
    auto read = co_await read_frozen(bucket, names);
    if (!read && read.error() == Errc::no_such_bucket) continue;
    if (!read && !(read.error() == Errc::conditional_conflict)) co_return std::unexpected(read.error());
    if (!read || *read == Attempt::again) continue;  // another server splits it or moves a key: left to the next run
    const auto now = registry_.find(bucket);
    for (const uint64_t number : numbers) {
      const auto named = [number](const Tablet& tablet) { return tablet.number == number; };
      if (now == nullptr || std::ranges::any_of(now->tablets, named)) continue;
      if (std::ranges::find(now->joined, number) != now->joined.end()) continue;
      librados::ObjectWriteOperation gone;
      gone.remove();
      const int code = co_await cluster_.write(Pool::index, tablet_object(bucket, number), std::move(gone));
      if (code < 0 && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: removing"));
      ++repaired_.tablets;
    }
  }
  co_return Result<void>{};
}

Task<Result<void>> Repair::keep_named(std::vector<Stripe>& stripes) {
  Survey survey;
  RowSurvey rows(registry_, survey);
  VB_CO_TRY(co_await rows.run());
  std::erase_if(stripes, [&rows](const Stripe& stripe) {
    return rows.striped.contains(stripe.blob) || rows.waiting.contains(stripe.blob);
  });
  co_return Result<void>{};
}

Task<Result<void>> Repair::keep_of_living(std::vector<Stripe>& stripes) {
  VB_CO_ASSIGN(auto signs, co_await registry_.all(std::string(servers_object), "s"));
  std::map<std::string, std::string> silent;  // servers that may be dead, with their sign when first seen
  for (const Stripe& stripe : stripes) {
    const auto sign = signs.find(server_row(incarnation_of(stripe.blob)));
    if (sign != signs.end()) silent.insert(*sign);
  }
  std::set<std::string> living;
  const auto until = deadline_in(Garbage::silence_max + look_at_signs_every);
  while (!silent.empty() && SteadyClock::now() < until) {
    co_await pause(look_at_signs_every);
    VB_CO_ASSIGN(signs, co_await registry_.all(std::string(servers_object), "s"));
    std::erase_if(silent, [&](const auto& seen) {
      const auto now = signs.find(seen.first);
      // Its sign is gone: it stopped, or another server declared it dead.
      if (now != signs.end() && now->second != seen.second) living.insert(seen.first);
      return now == signs.end() || now->second != seen.second;
    });
  }
  for (const auto& [row, sign] : silent) {
    VB_CO_ASSIGN(const bool given_up, co_await forget_server(registry_, row, sign));
    if (!given_up) living.insert(row);
    if (given_up) ++repaired_.servers_given_up;
  }
  repaired_.stripes_of_living += std::erase_if(
      stripes, [&living](const Stripe& stripe) { return living.contains(server_row(incarnation_of(stripe.blob))); });
  co_return Result<void>{};
}

Task<Result<std::set<uint64_t>>> Repair::read_names() {
  std::set<uint64_t> names;
  // Named buckets, then those being swept: a bucket moves from the former to the latter.
  VB_CO_ASSIGN(const auto named, co_await registry_.all(std::string(root_object), "b"));
  for (const auto& [row, id] : named) {
    VB_CO_TRY(co_await read_bucket(row.substr(1), keys::parse_number(id).value_or(0), names));
  }
  VB_CO_ASSIGN(const auto removed, co_await registry_.all(std::string(root_object), "x"));
  for (const auto& [row, value] : removed) {
    VB_CO_TRY(co_await read_removed(keys::parse_number(row.substr(1)).value_or(0), names));
  }
  co_return names;
}

// Ends the repair, because the references of a bucket whose object is lost are unknown.
Task<Result<void>> Repair::read_bucket(std::string name, uint64_t id, std::set<uint64_t>& names) {
  for (int attempt = 0; attempt < reads_max; ++attempt) {
    auto read = co_await read_frozen(id, names);
    if (!read && (read.error() == Errc::no_such_bucket || read.error() == Errc::not_found)) {
      VB_CO_TRY(co_await registry_.check_removed(name, id));
      co_return co_await read_removed(id, names);
    }
    if (!read && read.error() == Errc::conditional_conflict) continue;
    if (!read) co_return std::unexpected(read.error());
    if (*read == Attempt::done) co_return Result<void>{};
  }
  co_return fail(Errc::slow_down, "rados: a bucket is changed too often");
}

// Holds a phase of the bucket from the first tablet to the last, so that no row moves between tablets.
Task<Result<Attempt>> Repair::read_frozen(uint64_t id, std::set<uint64_t>& names) {
  VB_CO_ASSIGN(BucketPtr state, co_await registry_.load(id));
  VB_CO_ASSIGN(state, co_await registry_.writable(state, ""));
  const std::vector<Tablet> tablets = state->tablets;
  for (const Tablet& tablet : tablets) {
    const uint64_t epoch = state->epoch;
    const auto begun = co_await registry_.set_phase(state, Phase::splitting, tablet.number);
    if (!begun && begun.error() == Errc::conditional_conflict) co_return Attempt::again;
    if (!begun) co_return std::unexpected(begun.error());
    const BucketPtr frozen = *begun;
    const std::string object = tablet.object;
    auto read = co_await read_tablet(object, names);
    VB_CO_ASSIGN(state, co_await registry_.set_phase(frozen, Phase::live));
    if (!read) co_return std::unexpected(read.error());
    if (state->epoch != epoch + 2) co_return Attempt::again;
  }
  co_return Attempt::done;
}

// Its rows are only removed from now on.
Task<Result<void>> Repair::read_removed(uint64_t id, std::set<uint64_t>& names) {
  auto tablets = co_await registry_.all(bucket_object(id), "t");
  if (!tablets && tablets.error() == Errc::not_found) co_return Result<void>{};
  if (!tablets) co_return std::unexpected(tablets.error());
  for (const auto& [low, number] : *tablets) {
    const std::string object = tablet_object(id, keys::parse_number(number).value_or(0));
    auto read = co_await read_tablet(object, names);
    if (!read && !(read.error() == Errc::not_found)) co_return read;
  }
  co_return Result<void>{};
}

// All of its rows, including those that a split left behind.
Task<Result<void>> Repair::read_tablet(std::string object, std::set<uint64_t>& names) {
  for (std::string after;;) {
    VB_CO_ASSIGN(auto page, co_await registry_.page(object, after, ""));
    for (auto& [row, value] : page->rows) {
      after = row;
      VB_CO_TRY(add_striped(row, to_text(value), names));
    }
    if (!page->more || page->rows.empty()) co_return Result<void>{};
  }
}

Task<Result<void>> Repair::remove(const Stripe& stripe) {
  struct Size {
    uint64_t bytes = 0;
    time_t written = 0;
    int code = 0;
  };
  auto size = std::make_shared<Size>();
  const std::string object = stripe_object(stripe.blob, stripe.number);
  librados::ObjectReadOperation look;
  look.stat(&size->bytes, &size->written, &size->code);
  const int looked = co_await cluster_.read(Pool::data, object, std::move(look), size);
  if (looked == -ENOENT) co_return Result<void>{};
  if (looked < 0) co_return std::unexpected(to_error(looked, "rados: stripe"));
  librados::ObjectWriteOperation gone;
  gone.remove();
  const int code = co_await cluster_.write(Pool::data, object, std::move(gone));
  if (code == -ENOENT) co_return Result<void>{};
  if (code < 0) co_return std::unexpected(to_error(code, "rados: removing"));
  ++repaired_.stripes;
  repaired_.bytes += size->bytes;
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
