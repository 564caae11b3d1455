#include "events/redis_list.h"

#include <hiredis/hiredis.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <string_view>

#include "events/complaints.h"
#include "events/network_guard.h"

namespace verbena::events {
namespace {

struct FreeRedis {
  void operator()(redisContext* context) const { redisFree(context); }
};
struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisPtr = std::unique_ptr<redisContext, FreeRedis>;
using ReplyPtr = std::unique_ptr<redisReply, FreeReply>;

class RedisList final : public Target {
 public:
  explicit RedisList(TargetSettings settings) : settings_(std::move(settings)), complaints_(settings_.name) {}
  ~RedisList() override { drop(); }

  std::string said() const override { return complaints_.said(); }
  void cut() override {
    const std::lock_guard lock(mutex_);
    cut_ = true;
    if (redis_ != nullptr) ::shutdown(redis_->fd, SHUT_RDWR);
  }

  Task<Result<void>> deliver(const std::vector<std::string>& messages, size_t& delivered) override {
    complaints_.begin();
    auto done = push(messages);
    if (done) {
      complaints_.forget();
      delivered = messages.size();  // one command is atomic
    } else {
      drop();
    }
    co_return done;
  }

 private:
  Result<void> push(const std::vector<std::string>& messages) {
    if (redis_ == nullptr) VB_TRY(connect());
    std::vector<std::string_view> command{"RPUSH", settings_.path};
    command.insert(command.end(), messages.begin(), messages.end());
    VB_TRY(may_send());
    return call(command, REDIS_REPLY_INTEGER);
  }

  // Connects to a checked address, not to a name.
  Result<void> connect() {
    VB_ASSIGN(const net::TcpEndpoints endpoints, target_addresses(settings_, cut_));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(settings_.timeout);
    const timeval limit{seconds.count(), 0};
    for (const auto& endpoint : endpoints) {
      RedisPtr made(redisConnectWithTimeout(endpoint.address().to_string().c_str(), endpoint.port(), limit));
      const std::lock_guard lock(mutex_);
      if (cut_) return fail(Errc::cancelled, "redis: the server ends");
      redis_ = std::move(made);
      if (redis_ != nullptr && redis_->err == 0) break;
    }
    if (redis_ == nullptr || redis_->err != 0) return fail(Errc::connection_failed, "redis: no connection");
    if (redisSetTimeout(redis_.get(), limit) != REDIS_OK) return fail(Errc::connection_failed, "redis: timeout");
    return introduce();
  }

  Result<void> introduce() {
    if (!settings_.secret.empty()) {
      const std::string_view secret = settings_.secret;
      const size_t colon = secret.find(':');
      std::vector<std::string_view> command{"AUTH"};
      if (colon != std::string_view::npos) command.push_back(secret.substr(0, colon));
      command.push_back(colon == std::string_view::npos ? secret : secret.substr(colon + 1));
      VB_TRY(call(command, REDIS_REPLY_STATUS));
    }
    if (settings_.database == 0) return {};
    return call({"SELECT", std::to_string(settings_.database)}, REDIS_REPLY_STATUS);
  }

  Result<void> call(const std::vector<std::string_view>& command, int wanted) {
    std::vector<const char*> texts;
    std::vector<size_t> sizes;
    for (const std::string_view word : command) {
      texts.push_back(word.data());
      sizes.push_back(word.size());
    }
    const ReplyPtr reply(static_cast<redisReply*>(
        redisCommandArgv(redis_.get(), static_cast<int>(texts.size()), texts.data(), sizes.data())));
    if (reply == nullptr) return fail(Errc::connection_failed, "redis: no answer");
    if (reply->type == wanted) return {};
    if (reply->type == REDIS_REPLY_ERROR) {
      complaints_.say(std::string_view(reply->str, static_cast<size_t>(reply->len)));
    }
    return fail(Errc::invalid_request, "redis: the server refuses");
  }

  void drop() {
    const std::lock_guard lock(mutex_);
    redis_.reset();
  }

  const TargetSettings settings_;
  Complaints complaints_;
  std::mutex mutex_;  // held to change it: cut() is called by another thread
  RedisPtr redis_;
  std::atomic<bool> cut_{false};
};

}  // namespace

std::unique_ptr<Target> make_redis_list(const TargetSettings& settings) {
  return std::make_unique<RedisList>(settings);
}

}  // namespace verbena::events
