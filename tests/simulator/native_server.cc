#include "simulator/native_server.h"

#include <boost/asio/co_spawn.hpp>

#include "http/test_exchange.h"
#include "simulator/server.h"

namespace verbena::simulator {

const auth::Credentials& NativeServer::key() {
  static const auth::Credentials root{.access_key = "AKROOT", .secret_key = "secret/root", .session_token = {}};
  return root;
}

NativeServer::NativeServer(s3::Service& service, store::ChangeFeeds* feeds, Fabric& fabric, unsigned cores)
    : fabric_(fabric) {
  native::Options options;
  options.feeds = feeds;
  options.inline_max_bytes = 1024;
  options.may_dial = [](std::string_view, std::string_view, std::string_view) { return true; };
  door_ = std::make_unique<native::NativeDoor>(service, verifier_, credentials_, std::move(options));
  for (unsigned i = 0; i < cores; ++i) {
    cores_.push_back(std::make_unique<Core>(Core::Options{.index = i, .spin_for = std::chrono::microseconds(2)}));
    ports_.push_back(fabric.listen(*cores_.back()));
    (void)door_->attach(*cores_.back(), *ports_.back(), fabric.provider(), ports_.back()->address());
  }
  sessions_ = door_->session_handler();
  for (auto& core : cores_) threads_.emplace_back([&core] { core->run(); });
}

NativeServer::~NativeServer() {
  door_->stop();
  while (asked_ != 0 || door_->in_flight() != 0) sleep_for(1'000'000);
  for (auto& core : cores_) core->stop();
  for (std::thread& thread : threads_) thread.join();
  sessions_ = nullptr;
  ports_.clear();
  door_.reset();
}

Result<net::HttpReply> NativeServer::ask(const net::HttpRequest& request, size_t host) {
  ++asked_;
  http::FakeExchange exchange(request.method, request.target, std::string(as_text(request.body)));
  exchange.peer = "10.0.0." + std::to_string(host);
  for (const auto& [name, value] : request.headers) exchange.request_headers.emplace_back(name, value);
  bool done = false;
  boost::asio::co_spawn(cores_.front()->io(), http::serve_whole(sessions_, exchange), [&](std::exception_ptr) {
    const std::lock_guard lock(mutex_);
    done = true;
    answered_.notify_all();
  });
  {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return done; });
  }
  --asked_;
  net::HttpReply reply;
  reply.status = exchange.response.status;
  reply.body = exchange.response.body;
  for (const auto& [name, value] : exchange.response.headers) reply.headers.emplace_back(name, value);
  return reply;
}

}  // namespace verbena::simulator
