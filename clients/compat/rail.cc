#include "rail.h"

#include <netinet/in.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device_driver.h"
#include "device_export.h"
#include "settings.h"

namespace verbena::compat {
namespace {

constexpr size_t rails_max = 16;
constexpr uint64_t both_directions = FI_REMOTE_READ | FI_REMOTE_WRITE;

void need(int result, const char* what) {
  if (result != 0) throw FabricFault(std::string(what) + ": " + fi_strerror(-result));
}

std::string variable(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

std::string hex(uint64_t number) {
  char text[17];
  snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string hex(const unsigned char* bytes, size_t size) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (comma > at) names.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

Info hints_for(const std::string& provider, bool gpus) {
  Info hints(fi_allocinfo());
  if (!hints) throw std::bad_alloc();
  hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA | both_directions;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  if (gpus) {
    hints->caps |= FI_HMEM;
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->fabric_attr->prov_name = strdup(provider == "verbs" ? "verbs;ofi_rxm" : provider.c_str());
  return hints;
}

// IPv4 addresses that other hosts can reach. A server compares the endpoint's address with the HTTP connection's.
bool is_reachable(const fi_info& info) {
  if (info.src_addr == nullptr || info.src_addrlen < sizeof(sockaddr_in)) return false;
  const auto* address = static_cast<const sockaddr_in*>(info.src_addr);
  return address->sin_family == AF_INET && (ntohl(address->sin_addr.s_addr) >> 24) != 127;
}

}  // namespace

Rail::Rail(const fi_info& described) : info_(fi_dupinfo(&described)) {
  if (!info_) throw std::bad_alloc();
  fid_fabric* fabric = nullptr;
  need(fi_fabric(info_->fabric_attr, &fabric, nullptr), "fi_fabric");
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  need(fi_domain(fabric, info_.get(), &domain, nullptr), "fi_domain");
  domain_.reset(domain);
  fi_av_attr vector{};
  vector.type = FI_AV_TABLE;
  fid_av* addresses = nullptr;
  need(fi_av_open(domain, &vector, &addresses, nullptr), "fi_av_open");
  addresses_.reset(addresses);
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_CONTEXT;
  attributes.wait_obj = FI_WAIT_FD;
  fid_cq* queue = nullptr;
  if (fi_cq_open(domain, &attributes, &queue, nullptr) != 0) {
    attributes.wait_obj = FI_WAIT_NONE;
    need(fi_cq_open(domain, &attributes, &queue, nullptr), "fi_cq_open");
  }
  queue_.reset(queue);
  if (fi_control(&queue->fid, FI_GETWAIT, &readable_) != 0) readable_ = -1;
  endpoint_ = open_endpoint();
  first_name_ = endpoint_.name;
}

NamedEndpoint Rail::open_endpoint() {
  NamedEndpoint opened;
  fid_ep* endpoint = nullptr;
  need(fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr), "fi_endpoint");
  opened.endpoint.reset(endpoint);
  need(fi_ep_bind(endpoint, &addresses_->fid, 0), "fi_ep_bind");
  need(fi_ep_bind(endpoint, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  need(fi_enable(endpoint), "fi_enable");
  unsigned char name[192];
  size_t size = sizeof name;
  need(fi_getname(&endpoint->fid, name, &size), "fi_getname");
  opened.name = hex(name, std::min(size, sizeof name));
  return opened;
}

bool Rail::is_tcp() const { return std::string_view(info_->fabric_attr->prov_name).substr(0, 3) == "tcp"; }

// Calls `make(key)` until it finds a key that is not taken.
template <class Make>
int with_random_key(Make make) {
  int result = -FI_ENOKEY;
  for (int attempt = 0; attempt < 16 && result == -FI_ENOKEY; ++attempt) {
    uint64_t key = 0;
    if (getrandom(&key, sizeof key, 0) != sizeof key) throw FabricFault("getrandom");
    result = make(key);
  }
  return result;
}

Region Rail::pin(void* memory, size_t size) {
  fid_mr* made = nullptr;
  const auto make = [&](uint64_t key) {
    return fi_mr_reg(domain_.get(), memory, size, both_directions, 0, key, 0, &made, nullptr);
  };
  need(with_random_key(make), "fi_mr_reg");
  return region_of(made, memory);
}

// A libfabric that was built without CUDA does not know its memory. verbs need not: the device reads and writes, and
// libfabric never copies.
Region Rail::pin_device(void* memory, size_t size, const DeviceExport& from) {
  if ((info_->caps & FI_HMEM) == 0) throw FabricFault("this device registers no memory of a GPU");
  const auto address = reinterpret_cast<uint64_t>(memory);
  fi_mr_dmabuf dma_buf{};
  dma_buf.fd = from.descriptor();
  dma_buf.offset = address - from.begin();
  dma_buf.len = size;
  dma_buf.base_addr = reinterpret_cast<void*>(from.begin());
  fi_mr_attr attributes{};
  attributes.dmabuf = &dma_buf;
  attributes.iov_count = 1;
  attributes.access = both_directions;
  fid_mr* made = nullptr;
  const auto make = [&](uint64_t key) {
    attributes.requested_key = key;
    return fi_mr_regattr(domain_.get(), &attributes, FI_MR_DMABUF, &made);
  };
  attributes.iface = FI_HMEM_CUDA;
  attributes.device.cuda = from.device();
  int result = with_random_key(make);
  if (result == -FI_ENOSYS) {
    attributes.iface = FI_HMEM_SYSTEM;
    attributes.device.reserved = 0;
    result = with_random_key(make);
  }
  need(result, "fi_mr_regattr of a GPU's memory");
  return region_of(made, memory);
}

Region Rail::region_of(fid_mr* made, void* memory) const {
  Region region{.registration = Fid<fid_mr>(made), .base = 0, .key = fi_mr_key(made), .own = {}};
  if (region.key == FI_KEY_NOTAVAIL) throw FabricFault("keys of this provider are longer than 8 bytes");
  if ((info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0) region.base = reinterpret_cast<uint64_t>(memory);
  return region;
}

void Rail::unpin(Region region) {
  region.own.endpoint.reset();
  fid_mr* const registration = region.registration.release();
  if (registration == nullptr || fi_close(&registration->fid) == 0) return;
  // Busy: operations are in progress, which end with the endpoint. The next token opens it again.
  endpoint_ = {};
  need(fi_close(&registration->fid), "fi_close of a registration");
}

const NamedEndpoint& Rail::endpoint_of(Region& region) {
  NamedEndpoint& used = is_tcp() ? region.own : endpoint_;
  if (used.endpoint != nullptr) return used;
  if (endpoint_.endpoint != nullptr) {
    std::swap(used, endpoint_);
    return used;
  }
  try {
    used = open_endpoint();
  } catch (const FabricFault&) {
    pass_over();
    throw;
  }
  return used;
}

// False: there was none.
bool Rail::take_completions() {
  fi_cq_entry entries[16];
  const auto count = fi_cq_read(queue_.get(), entries, 16);
  if (count != -FI_EAVAIL) return count > 0;
  fi_cq_err_entry error{};
  fi_cq_readerr(queue_.get(), &error, 0);
  return true;
}

int Rail::progress() {
  constexpr int rounds_max = 8;  // then others get the lock
  fid* fids[] = {&queue_->fid};
  for (int round = 0; round < rounds_max; ++round) {
    const bool more = take_completions();
    if (readable_ >= 0 && fi_trywait(fabric_.get(), fids, 1) == 0) return readable_;
    if (!more) break;
  }
  return -1;
}

std::string Rail::token(Region& region, uint64_t offset, uint64_t size) {
  const std::string& name = endpoint_of(region).name;
  return hex(region.base + offset) + ":" + hex(size) + ":ofi1:" + info_->fabric_attr->prov_name + ":" + name + ":" +
         hex(region.key);
}

// Its endpoints, of which some may be gone, differ in their port alone: two bytes behind the family in a socket
// address.
bool Rail::minted(std::string_view token) const {
  const std::string mark = std::string(":ofi1:") + info_->fabric_attr->prov_name + ":";
  const size_t at = token.find(mark);
  if (at == std::string_view::npos) return false;
  std::string_view name = token.substr(at + mark.size());
  name = name.substr(0, name.find(':'));
  const std::string_view own = first_name_;
  return name.size() == own.size() && own.size() > 8 && name.substr(0, 4) == own.substr(0, 4) &&
         name.substr(8) == own.substr(8);
}

std::vector<std::unique_ptr<Rail>> open_rails(const std::string& devices) {
  const std::string address = variable("S3RDMA_ADDRESS", "");
  const std::string provider = variable("S3RDMA_PROVIDER", "verbs");
  fi_info* found = nullptr;
  const auto ask = [&](bool gpus) {
    const Info hints = hints_for(provider, gpus);
    return get_info(address.empty() ? nullptr : address.c_str(), address.empty() ? 0 : FI_SOURCE, hints.get(), &found);
  };
  // Others would have a CPU copy a GPU's memory.
  const bool with_gpus = provider == "verbs" && device_driver() != nullptr && ask(true) == 0;
  const int result = with_gpus ? 0 : ask(false);
  need(result, ("fi_getinfo of " + provider).c_str());
  const Info all(found);
  const auto wanted = split_names(devices);
  std::vector<std::string> taken;
  std::vector<std::unique_ptr<Rail>> rails;
  for (const fi_info* info = all.get(); info != nullptr && rails.size() < rails_max; info = info->next) {
    const std::string name = info->domain_attr->name != nullptr ? info->domain_attr->name : "";
    const bool named = wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    if (!named || std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    if (address.empty() && !is_reachable(*info)) continue;
    rails.push_back(std::make_unique<Rail>(*info));
    taken.push_back(name);
  }
  if (rails.empty())
    throw FabricFault("no device " + devices + " of " + provider + " with an address that others reach");
  return rails;
}

}  // namespace verbena::compat
