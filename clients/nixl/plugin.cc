// libplugin_VERBENA.so: NIXL's object segments in a bucket of Verbena (docs/nixl.md).
#include <array>
#include <climits>
#include <exception>

#include "settings.h"
#include "transfer.h"

namespace verbena::nixl {
namespace {

const Segments supported = {object, dram, vram};

class VerbenaEngine final : public Engine {
 public:
  VerbenaEngine(const InitParameters& given, Settings settings, Client client)
      : Engine(given), settings_(std::move(settings)), client_(std::move(client)) {}

  bool supports_remote() const override { return false; }
  bool supports_local() const override { return true; }
  bool supports_notifications() const override { return false; }
  Segments segments() const override { return supported; }

  Status register_segment(const BlobDescriptor& what, const Segment& segment, Metadata*& made) override;
  Status deregister(Metadata* made) override {
    delete made;
    return success;
  }
  Status connect(const std::string&) override { return success; }
  Status disconnect(const std::string&) override { return success; }
  Status unload(Metadata*) override { return success; }
  Status load_local(Metadata* input, Metadata*& output) override {
    output = input;
    return success;
  }

  Status prepare(const Operation& operation, const MetaList& local, const MetaList& remote, const std::string&,
                 Request*& request, const TransferOptions*) const override;
  Status post(const Operation&, const MetaList&, const MetaList&, const std::string&, Request*& request,
              const TransferOptions*) const override;
  Status check(Request* request) const override;
  Status release(Request* request) const override {
    delete request;
    return success;
  }
  Status query(const BlobList& what, std::vector<QueryReply>& replies) const override;

 private:
  std::string key_of(const BlobDescriptor& what) const {
    return settings_.prefix + (what.meta.empty() ? std::to_string(what.device) : what.meta);
  }

  const Settings settings_;
  const Client client_;
};

Status VerbenaEngine::register_segment(const BlobDescriptor& what, const Segment& segment, Metadata*& made) {
  if (segment == object) {
    made = new ObjectKey(key_of(what));
    return success;
  }
  if (segment != dram && segment != vram) return not_supported;
  if (what.address == 0 || what.length == 0) return invalid_parameter;
  if (segment == vram && what.device > INT_MAX) return invalid_parameter;  // narrowed it would be another one's
  const DeviceBuffer on_device{.address = what.address, .size = what.length, .device = static_cast<int>(what.device)};
  auto registered = segment == vram ? client_.register_memory(on_device)
                                    : client_.register_memory(reinterpret_cast<void*>(what.address), what.length);
  if (!registered) {
    complain("registering memory: " + registered.error().message);
    return status_of(registered.error().code);
  }
  made = new LocalMemory(what, std::move(*registered));
  return success;
}

Status VerbenaEngine::prepare(const Operation& operation, const MetaList& local, const MetaList& remote,
                              const std::string&, Request*& request, const TransferOptions*) const {
  auto made = Transfer::prepare(operation, local, remote, settings_.bucket);
  if (!made) return made.error();
  request = made->release();
  return success;
}

Status VerbenaEngine::post(const Operation&, const MetaList&, const MetaList&, const std::string&, Request*& request,
                           const TransferOptions*) const {
  auto* transfer = dynamic_cast<Transfer*>(request);
  return transfer == nullptr ? invalid_parameter : transfer->post(client_);
}

Status VerbenaEngine::check(Request* request) const {
  auto* transfer = dynamic_cast<Transfer*>(request);
  return transfer == nullptr ? invalid_parameter : transfer->check();
}

Status VerbenaEngine::query(const BlobList& what, std::vector<QueryReply>& replies) const {
  replies.assign(what.size(), std::nullopt);
  std::vector<std::string> keys;
  for (size_t i = 0; i < what.size(); ++i) keys.push_back(key_of(what[i]));
  std::vector<BatchItem> items;
  for (const std::string& key : keys) items.push_back({.bucket = settings_.bucket, .key = key});
  std::vector<BatchResult> results(items.size());
  for (size_t from = 0; from < items.size(); from += batch_items_max) {
    const size_t count = std::min(batch_items_max, items.size() - from);
    const auto asked =
        client_.head_many(std::span(items).subspan(from, count), std::span(results).subspan(from, count));
    if (asked) continue;
    complain("looking for objects: " + asked.error().message);
    return status_of(asked.error().code);
  }
  Status first = success;
  for (size_t i = 0; i < results.size(); ++i) {
    const BatchResult& result = results[i];
    if (!result.error) {
      replies[i] = Parameters{{"size", std::to_string(result.size)}, {"etag", result.etag}};
    } else if (*result.error != ErrorCode::no_such_key && first == success) {
      complain("looking for " + keys[i] + ": " + std::string(to_string(*result.error)));
      first = status_of(*result.error);
    }
  }
  return first;
}

Engine* create(const InitParameters* given) {
  try {
    auto settings = parse_settings(*given->custom);
    if (!settings) {
      complain(settings.error());
      return nullptr;
    }
    auto client = Client::connect(settings->client);
    if (client) return new VerbenaEngine(*given, std::move(*settings), std::move(*client));
    complain(settings->client.endpoint + ": " + client.error().message);
  } catch (const std::exception& error) {
    complain(error.what());
  }
  return nullptr;
}

Plugin plugin = {.version = api_version,
                 .create = create,
                 .destroy = [](Engine* engine) { delete engine; },
                 .name = [] { return "VERBENA"; },
                 .plugin_version = [] { return VERBENA_VERSION; },
                 .options = default_parameters,
                 .segments = [] { return supported; }};

}  // namespace
}  // namespace verbena::nixl

verbena::nixl::Plugin* nixl_plugin_init() { return &verbena::nixl::plugin; }
void nixl_plugin_fini() {}
