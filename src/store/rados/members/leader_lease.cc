#include "store/rados/members/leader_lease.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>

#include "base/bytes.h"
#include "base/log.h"
#include "base/metrics.h"
#include "store/logic/keys.h"
#include "store/rados/cluster/layout.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

// The row keeps its old name in the cluster, because older servers read it.
const std::string leader_row = "duty";

}  // namespace

Task<Result<bool>> LeaderLease::sign(std::string seen) {
  std::byte random[8];
  fill_random(random);
  const std::string sign = keys::number(incarnation_) + std::string(as_text(random));
  const auto began = LeaseClock::now();
  librados::ObjectWriteOperation op;
  op.create(false);
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {leader_row, {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  const std::map<std::string, Buffer> set = {{leader_row, to_buffer(sign)}};
  op.omap_set(set);
  const int code = co_await cluster_.write(Pool::index, std::string(servers_object), std::move(op));
  own_.clear();
  if (code == -ECANCELED) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: leader lease"));
  own_ = sign;
  until_ = (began + lease).time_since_epoch().count();
  co_return true;
}

Task<Result<void>> LeaderLease::pass() {
  if (!own_.empty()) {
    std::string own = own_;
    VB_CO_ASSIGN(const bool renewed, co_await sign(std::move(own)));
    if (renewed) co_return Result<void>{};
    until_ = 0;
    log::info("rados: another server has the leader lease");
  }
  struct Reply {
    std::map<std::string, Buffer> rows;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.omap_get_vals_by_keys({leader_row}, &reply->rows, &reply->code);
  const int code = co_await cluster_.read(Pool::index, std::string(servers_object), std::move(op), reply);
  if (code < 0 && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: leader lease"));
  const auto found = reply->rows.find(leader_row);
  std::string now = found == reply->rows.end() ? "" : to_text(found->second);
  // It is this process's own: an unanswered call was made after all.
  const bool own = now.starts_with(keys::number(incarnation_));
  if (!own && now != seen_) {
    seen_ = now;
    seen_since_ = SteadyClock::now();
  }
  if (!own && !now.empty() && SteadyClock::now() - seen_since_ < silence_max) co_return Result<void>{};
  const bool had = holds();
  if (!had) ++terms_;
  VB_CO_ASSIGN(const bool taken, co_await sign(std::move(now)));
  if (!taken || had) co_return Result<void>{};
  log::info("rados: this server has the leader lease: lifecycle rules, delivery of events, removal of leftovers");
  co_return Result<void>{};
}

Task<> LeaderLease::run() {
  static auto& gauge = metrics::gauge(
      "verbena_rados_leader", "1: this server holds the leader lease and does the jobs that only one server may do");
  while (!stopping_) {
    gauge.set(holds() ? 1 : 0);  // checked again: this process may have been frozen
    if (!cluster_.may_write()) {
      until_ = 0;  // another server takes the lease
    } else if (auto done = co_await pass(); !done) {
      log::info("rados: {}", describe(done.error()));
    }
    gauge.set(holds() ? 1 : 0);
    timer_.expires_after(renew_every);
    boost::system::error_code woken;
    if (!stopping_) co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
  }
  until_ = 0;
  gauge.set(0);
  if (own_.empty()) co_return;
  librados::ObjectWriteOperation op;
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {leader_row, {to_buffer(own_), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  op.omap_rm_keys({leader_row});
  (void)co_await cluster_.withdraw(std::string(servers_object), std::move(op));
}

void LeaderLease::stop() {
  stopping_ = true;
  until_ = 0;
  boost::asio::post(timer_.get_executor(), [this] { timer_.cancel(); });
}

}  // namespace verbena::store::rados
