// A host that loads the NIXL plugin as NIXL does: by NIXL_PLUGIN_DIR, dlopen and nixl_plugin_init(), then through the
// table of virtual functions alone. Prints a line for each case that held, and exits with 1 at the first that did not.
//
// usage: nixl_host CASE BUCKET ENDPOINT NATIVE; the keys come from the environment. Cases: all, gone (the server is
// killed when this prints "kill"), device (libcuda.so.1 is tests/gpu's double).
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>

#include "nixl/abi.h"

namespace {

using namespace verbena::nixl;

#define EXPECT(condition)                                               \
  do {                                                                  \
    if (!(condition)) {                                                 \
      std::cerr << __LINE__ << ": not so: " << #condition << std::endl; \
      std::exit(1);                                                     \
    }                                                                   \
  } while (false)

struct Loaded {
  Loaded() {
    const char* const folder = std::getenv("NIXL_PLUGIN_DIR");
    EXPECT(folder != nullptr);
    library = ::dlopen((std::string(folder) + "/libplugin_VERBENA.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::cerr << ::dlerror() << std::endl;
    EXPECT(library != nullptr);
    auto* const init = reinterpret_cast<Plugin* (*)()>(::dlsym(library, "nixl_plugin_init"));
    EXPECT(init != nullptr && ::dlsym(library, "nixl_plugin_fini") != nullptr);
    plugin = init();
    EXPECT(plugin != nullptr && plugin->version == 1);
  }
  void* library = nullptr;
  Plugin* plugin = nullptr;
};

struct Host {
  Host(const Plugin& from, Parameters given) : plugin(from), custom(std::move(given)) {
    InitParameters with;
    with.local_agent = "agent";
    with.type = "VERBENA";
    with.custom = &custom;
    engine.reset(from.create(&with));
  }
  struct Destroy {
    const Plugin* plugin;
    void operator()(Engine* engine) const { plugin->destroy(engine); }
  };
  const Plugin& plugin;
  Parameters custom;
  std::unique_ptr<Engine, Destroy> engine{nullptr, Destroy{&plugin}};
};

Metadata* memory(Engine& engine, void* at, size_t size, Segment segment = dram, uint64_t device = 0) {
  BlobDescriptor what;
  what.device = device;
  what.address = reinterpret_cast<uintptr_t>(at);
  what.length = size;
  Metadata *made = nullptr, *loaded = nullptr;
  EXPECT(engine.register_segment(what, segment, made) == success && made != nullptr);
  EXPECT(engine.load_local(made, loaded) == success && loaded != nullptr);
  return loaded;
}

Metadata* object_named(Engine& engine, const std::string& key, uint64_t number = 0) {
  BlobDescriptor what;
  what.meta = key;
  what.device = number;
  Metadata* made = nullptr;
  EXPECT(engine.register_segment(what, object, made) == success);
  return made;
}

struct Pairs {
  explicit Pairs(Segment of = dram) : local(of) {}
  MetaList local, remote{object};
  void add(void* at, size_t size, Metadata* held, size_t offset, Metadata* key) {
    MetaDescriptor here, there;
    here.address = reinterpret_cast<uintptr_t>(at);
    here.length = there.length = size;
    here.metadata = held;
    there.address = offset;
    there.metadata = key;
    local.add(here);
    remote.add(there);
  }
};

Status finish(Engine& engine, Request* request) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    const Status status = engine.check(request);
    if (status != in_progress) return status;
    EXPECT(std::chrono::steady_clock::now() < until);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// The status of a whole transfer.
Status run(Engine& engine, Operation operation, const Pairs& pairs) {
  Request* request = nullptr;
  const Status prepared = engine.prepare(operation, pairs.local, pairs.remote, "agent", request, nullptr);
  if (prepared != success) {
    EXPECT(request == nullptr);
    return prepared;
  }
  const Status posted = engine.post(operation, pairs.local, pairs.remote, "agent", request, nullptr);
  const Status status = posted == in_progress ? finish(engine, request) : posted;
  EXPECT(engine.release(request) == success);
  return status;
}

void fill(std::vector<unsigned char>& bytes, unsigned seed) {
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>((i * 131 + (i >> 8) * 7 + seed) & 255);
}

// Positions in the table of virtual functions: a pointer to a member is 1 + its offset there (Itanium C++ ABI).
template <class Member>
size_t slot(Member member) {
  struct {
    ptrdiff_t at, adjust;
  } raw;
  static_assert(sizeof raw == sizeof member);
  std::memcpy(&raw, &member, sizeof raw);
  return static_cast<size_t>((raw.at & ~ptrdiff_t{1}) / ptrdiff_t{sizeof(void*)});
}

void positions() {
  EXPECT(slot(&Engine::supports_remote) == 2 && slot(&Engine::segments) == 5);
  EXPECT(slot(&Engine::register_segment) == 6 && slot(&Engine::unload) == 10);
  EXPECT(slot(&Engine::prepare) == 11 && slot(&Engine::release) == 14);
  EXPECT(slot(&Engine::view_remote) == 15 && slot(&Engine::release_view) == 17);
  EXPECT(slot(&Engine::public_data) == 18 && slot(&Engine::load_remote) == 21 && slot(&Engine::load_local) == 22);
  EXPECT(slot(&Engine::notifications) == 23 && slot(&Engine::query) == 25 && slot(&Engine::estimate) == 26);
  EXPECT(slot(&MetaList::resize) == 2 && slot(&MetaList::add) == 3 && slot(&MetaList::index_of) == 4);
  std::cout << "positions" << std::endl;
}

void refusals(const Plugin& plugin, const Parameters& good) {
  for (const auto& [name, value] :
       Parameters{{"bukket", "x"}, {"via", "pigeon"}, {"timeout_s", "0"}, {"num_threads", "x"}}) {
    Parameters bad = good;
    bad[name] = value;
    EXPECT(Host(plugin, bad).engine == nullptr);
  }
  Parameters nowhere = good;
  nowhere["bucket"] = "";
  EXPECT(Host(plugin, nowhere).engine == nullptr);
  Parameters other = good;
  other["crtMinLimit"] = "10485760";
  EXPECT(Host(plugin, other).engine != nullptr);
  std::cout << "refusals" << std::endl;
}

void bytes_go_and_come(Engine& engine) {
  constexpr size_t count = 300, size = 20'000;
  std::vector<unsigned char> sent(count * size), got(count * size);
  fill(sent, 1);
  Metadata* const from = memory(engine, sent.data(), sent.size());
  Metadata* const to = memory(engine, got.data(), got.size());
  std::vector<Metadata*> keys;
  Pairs out, in, parts;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(object_named(engine, "block/" + std::to_string(i)));
    out.add(sent.data() + i * size, size, from, 0, keys.back());
    // Scattered: the destinations are in the opposite order.
    in.add(got.data() + (count - 1 - i) * size, size, to, 0, keys.back());
    parts.add(got.data() + i * size + 7, 1000, to, 333 + i, keys.back());
  }
  EXPECT(run(engine, write_op, out) == success);
  EXPECT(run(engine, read_op, in) == success);
  for (size_t i = 0; i < count; ++i) {
    EXPECT(std::memcmp(got.data() + (count - 1 - i) * size, sent.data() + i * size, size) == 0);
  }
  std::fill(got.begin(), got.end(), 0xee);
  EXPECT(run(engine, read_op, parts) == success);
  for (size_t i = 0; i < count; ++i) {
    const unsigned char* const at = got.data() + i * size;
    EXPECT(at[6] == 0xee && at[1007] == 0xee && std::memcmp(at + 7, sent.data() + i * size + 333 + i, 1000) == 0);
  }
  for (Metadata* one : keys) EXPECT(engine.deregister(one) == success);
  EXPECT(engine.deregister(from) == success && engine.deregister(to) == success);
  std::cout << "bytes" << std::endl;
}

// As a KV cache: the memory of each layer is registered by itself, and a transfer touches all of them.
void many_registrations(Engine& engine) {
  constexpr size_t layers = 20, blocks = 8, size = 4096;
  std::vector<std::vector<unsigned char>> sent(layers), got(layers);
  std::vector<Metadata*> from, to, keys;
  for (size_t layer = 0; layer < layers; ++layer) {
    sent[layer].resize(blocks * size);
    got[layer].resize(blocks * size);
    fill(sent[layer], static_cast<unsigned>(layer));
    from.push_back(memory(engine, sent[layer].data(), blocks * size));
    to.push_back(memory(engine, got[layer].data(), blocks * size));
  }
  Pairs out, in;
  for (size_t block = 0; block < blocks; ++block) {
    for (size_t layer = 0; layer < layers; ++layer) {
      keys.push_back(object_named(engine, "layered/" + std::to_string(block) + "/" + std::to_string(layer)));
      out.add(sent[layer].data() + block * size, size, from[layer], 0, keys.back());
      in.add(got[layer].data() + block * size, size, to[layer], 0, keys.back());
    }
  }
  EXPECT(run(engine, write_op, out) == success && run(engine, read_op, in) == success);
  EXPECT(sent == got);
  // A prepared transfer is posted again.
  Request* request = nullptr;
  EXPECT(engine.prepare(read_op, in.local, in.remote, "agent", request, nullptr) == success);
  EXPECT(engine.check(request) == not_posted);
  for (int turn = 0; turn < 3; ++turn) {
    for (auto& layer : got) std::fill(layer.begin(), layer.end(), 0);
    EXPECT(engine.post(read_op, in.local, in.remote, "agent", request, nullptr) == in_progress);
    EXPECT(finish(engine, request) == success && sent == got);
  }
  // Released in flight: what is registered may go afterwards.
  EXPECT(engine.post(read_op, in.local, in.remote, "agent", request, nullptr) == in_progress);
  EXPECT(engine.release(request) == success);
  for (const auto& list : {from, to, keys}) {
    for (Metadata* one : list) EXPECT(engine.deregister(one) == success);
  }
  std::cout << "registrations" << std::endl;
}

void errors(Engine& engine) {
  std::vector<unsigned char> bytes(8192, 3);
  Metadata* const held = memory(engine, bytes.data(), bytes.size());
  Metadata* const here = object_named(engine, "short");
  Metadata* const missing = object_named(engine, "missing");
  const auto one = [&](size_t from, size_t size, size_t offset, Metadata* key) {
    Pairs pairs;
    pairs.add(bytes.data() + from, size, held, offset, key);
    return pairs;
  };
  EXPECT(run(engine, write_op, one(0, 100, 0, here)) == success);
  EXPECT(run(engine, read_op, one(0, 101, 0, here)) == mismatch);
  EXPECT(run(engine, read_op, one(0, 10, 200, here)) == mismatch);
  EXPECT(run(engine, read_op, one(0, 10, 0, missing)) == not_found);
  EXPECT(run(engine, write_op, one(0, 10, 5, here)) == not_supported);
  EXPECT(run(engine, read_op, one(8190, 3, 0, here)) == invalid_parameter);  // past what is registered
  EXPECT(run(engine, read_op, one(0, 0, 0, here)) == invalid_parameter);
  EXPECT(run(engine, read_op, Pairs{}) == invalid_parameter);
  Pairs unequal = one(0, 10, 0, here);
  unequal.local.add({});
  EXPECT(run(engine, read_op, unequal) == invalid_parameter);
  Pairs unregistered = one(0, 10, 0, nullptr);
  EXPECT(run(engine, read_op, unregistered) == invalid_parameter);
  Pairs swapped = one(0, 10, 0, held);  // memory where an object belongs
  EXPECT(run(engine, read_op, swapped) == invalid_parameter);
  Pairs device = one(0, 10, 0, here);
  MetaList on_device(vram);
  on_device.add(device.local[0]);
  device.local = MetaList(on_device);
  EXPECT(run(engine, read_op, device) == invalid_parameter);  // memory of the host in a list of a device's
  Pairs twice = one(0, 10, 0, here);
  twice.add(bytes.data() + 10, 10, held, 0, here);
  EXPECT(run(engine, write_op, twice) == invalid_parameter);
  Pairs some = one(0, 10, 0, here);  // one of two fails: so does the transfer
  some.add(bytes.data() + 100, 10, held, 0, missing);
  EXPECT(run(engine, read_op, some) == not_found);
  BlobDescriptor on_gpu;
  Metadata* made = nullptr;
  EXPECT(engine.register_segment(on_gpu, vram, made) == invalid_parameter && made == nullptr);
  on_gpu.address = reinterpret_cast<uintptr_t>(bytes.data());
  on_gpu.length = bytes.size();
  EXPECT(engine.register_segment(on_gpu, vram, made) != success && made == nullptr);  // it is the host's
  EXPECT(engine.register_segment(on_gpu, block, made) == not_supported && made == nullptr);
  on_gpu = {};
  EXPECT(engine.register_segment(on_gpu, dram, made) == invalid_parameter && made == nullptr);

  BlobList asked(object);
  for (const char* const name : {"short", "missing"}) {
    BlobDescriptor what;
    what.meta = name;
    asked.add(what);
  }
  std::vector<QueryReply> replies;
  EXPECT(engine.query(asked, replies) == success && replies.size() == 2);
  EXPECT(replies[0] && replies[0]->at("size") == "100" && !replies[1]);
  EXPECT(!engine.supports_remote() && engine.supports_local() && !engine.supports_notifications());
  for (Metadata* each : {held, here, missing}) EXPECT(engine.deregister(each) == success);
  std::cout << "errors" << std::endl;
}

// A child made while a transfer is under way has nothing that ends it: it is told so, and can let it go.
void forked(Engine& engine) {
  std::vector<unsigned char> bytes(32 << 20, 4);
  Metadata* const held = memory(engine, bytes.data(), bytes.size());
  Metadata* const key = object_named(engine, "forked");
  Pairs pairs;
  pairs.add(bytes.data(), bytes.size(), held, 0, key);
  Request* request = nullptr;
  EXPECT(engine.prepare(write_op, pairs.local, pairs.remote, "agent", request, nullptr) == success);
  EXPECT(engine.post(write_op, pairs.local, pairs.remote, "agent", request, nullptr) == in_progress);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const bool is_told = engine.check(request) != in_progress;
    ::_exit(is_told && engine.release(request) == success ? 0 : 1);
  }
  int status = -1;
  EXPECT(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT(finish(engine, request) == success && engine.release(request) == success);
  for (Metadata* each : {held, key}) EXPECT(engine.deregister(each) == success);
  std::cout << "forked" << std::endl;
}

// A server that is gone is an error before the time-out, and what was written before is whole.
void gone(Engine& engine) {
  std::vector<unsigned char> bytes(1 << 20, 9);
  Metadata* const held = memory(engine, bytes.data(), bytes.size());
  Metadata* const key = object_named(engine, "last");
  Pairs pairs;
  pairs.add(bytes.data(), bytes.size(), held, 0, key);
  EXPECT(run(engine, write_op, pairs) == success);
  std::cout << "kill" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  const Status status = run(engine, read_op, pairs);
  EXPECT(status == remote_disconnect || status == backend_error);
  for (Metadata* each : {held, key}) EXPECT(engine.deregister(each) == success);
  std::cout << "gone" << std::endl;
}

// A call of the driver's double, which stands in place of the driver.
template <class Call>
Call* of_double(const char* name) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  EXPECT(driver != nullptr);
  auto* const found = reinterpret_cast<Call*>(::dlsym(driver, name));
  EXPECT(found != nullptr);
  return found;
}

// Objects out of a GPU's memory and into it, which no CPU can read.
void device_memory(Engine& engine) {
  constexpr size_t count = 40, size = 30'000;
  auto* const allocate = of_double<uint64_t(int, size_t)>("double_allocate");
  const uint64_t from = allocate(0, count * size), to = allocate(0, count * size);
  EXPECT(from != 0 && to != 0);
  std::vector<unsigned char> sent(count * size), got(count * size);
  fill(sent, 5);
  of_double<void(uint64_t, const void*, size_t)>("double_poke")(from, sent.data(), sent.size());
  auto* const source = reinterpret_cast<unsigned char*>(from);
  auto* const target = reinterpret_cast<unsigned char*>(to);
  Metadata* const held = memory(engine, source, count * size, vram);
  Metadata* const into = memory(engine, target, count * size, vram);
  std::vector<Metadata*> keys;
  Pairs out(vram), in(vram), as_host(dram);
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(object_named(engine, "device/" + std::to_string(i)));
    out.add(source + i * size, size, held, 0, keys.back());
    in.add(target + i * size, size, into, 0, keys.back());
  }
  as_host.add(source, size, held, 0, keys.front());
  EXPECT(run(engine, write_op, as_host) == invalid_parameter);
  EXPECT(run(engine, write_op, out) == success);
  EXPECT(run(engine, read_op, in) == success);
  of_double<void(void*, uint64_t, size_t)>("double_peek")(got.data(), to, got.size());
  EXPECT(got == sent);
  for (Metadata* each : keys) EXPECT(engine.deregister(each) == success);
  for (Metadata* each : {held, into}) EXPECT(engine.deregister(each) == success);
  std::cout << "device" << std::endl;
}

// Blocks of two GPUs in one transfer, in turn.
void two_devices(Engine& engine) {
  constexpr size_t count = 40, size = 30'000;
  std::vector<unsigned char> sent(count * size);
  fill(sent, 6);
  unsigned char *source[2], *target[2];
  Metadata *held[2], *into[2];
  for (const int device : {0, 1}) {
    auto* const allocate = of_double<uint64_t(int, size_t)>("double_allocate");
    const uint64_t from = allocate(device, sent.size()), to = allocate(device, sent.size());
    EXPECT(from != 0 && to != 0);
    of_double<void(uint64_t, const void*, size_t)>("double_poke")(from, sent.data(), sent.size());
    source[device] = reinterpret_cast<unsigned char*>(from);
    target[device] = reinterpret_cast<unsigned char*>(to);
    held[device] = memory(engine, source[device], sent.size(), vram, static_cast<uint64_t>(device));
    into[device] = memory(engine, target[device], sent.size(), vram, static_cast<uint64_t>(device));
  }
  std::vector<Metadata*> keys;
  Pairs out(vram), in(vram);
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(object_named(engine, "devices/" + std::to_string(i)));
    out.add(source[i % 2] + i * size, size, held[i % 2], 0, keys.back());
    in.add(target[(i + 1) % 2] + i * size, size, into[(i + 1) % 2], 0, keys.back());
  }
  EXPECT(run(engine, write_op, out) == success);
  EXPECT(run(engine, read_op, in) == success);
  std::vector<unsigned char> one(size);
  for (size_t i = 0; i < count; ++i) {
    const auto at = reinterpret_cast<uint64_t>(target[(i + 1) % 2] + i * size);
    of_double<void(void*, uint64_t, size_t)>("double_peek")(one.data(), at, size);
    EXPECT(std::memcmp(one.data(), sent.data() + i * size, size) == 0);
  }
  // A number that no device can have, not even the one that is left of it as an int.
  BlobDescriptor far;
  far.address = reinterpret_cast<uintptr_t>(source[0]);
  far.length = size;
  far.device = uint64_t{1} << 32;
  Metadata* made = nullptr;
  EXPECT(engine.register_segment(far, vram, made) == invalid_parameter && made == nullptr);
  for (Metadata* each : keys) EXPECT(engine.deregister(each) == success);
  for (const int device : {0, 1}) {
    EXPECT(engine.deregister(held[device]) == success && engine.deregister(into[device]) == success);
  }
  std::cout << "two devices" << std::endl;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) return 2;
  const Loaded loaded;
  const Plugin& plugin = *loaded.plugin;
  EXPECT(std::strcmp(plugin.name(), "VERBENA") == 0 && std::strlen(plugin.plugin_version()) != 0);
  EXPECT(plugin.segments() == (Segments{object, dram, vram}) && plugin.options().contains("bucket"));
  const Parameters given{
      {"bucket", words[2]}, {"endpoint_override", words[3]}, {"native", words[4]}, {"timeout_s", "10"}};
  Host host(plugin, given);
  EXPECT(host.engine != nullptr && !host.engine->init_failed());
  if (std::strcmp(words[1], "gone") == 0) {
    gone(*host.engine);
    return 0;
  }
  if (std::strcmp(words[1], "device") == 0) {
    device_memory(*host.engine);
    two_devices(*host.engine);
    return 0;
  }
  positions();
  refusals(plugin, given);
  bytes_go_and_come(*host.engine);
  many_registrations(*host.engine);
  errors(*host.engine);
  forked(*host.engine);
  return 0;
}
