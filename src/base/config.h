// Configuration: YAML, with environment variables (VERBENA_RDMA_PORT=9100 for rdma.port) above it and flags above
// those. One table (config_keys) describes every key; parsing, documentation and error messages all come from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "base/rdma_encryption.h"

namespace verbena {

// The storage of objects.
enum class EngineChoice : uint8_t {
  local,  // the data directory
  rados,  // a Ceph cluster; the directory has the rest
};

// The way that data is read from disk.
enum class DiskIo : uint8_t {
  automatic,  // io_uring if the machine allows it, else threads
  io_uring,   // only io_uring, else the start fails
  threads,    // on the blocking pool
};

// A value's text and its source.
struct ConfigOrigin {
  std::string text;
  std::string source;  // "/etc/verbena.yaml:12", "variable VERBENA_HTTP_PORT", "flag"
};

struct Config {
  std::map<std::string, ConfigOrigin, std::less<>> origins;  // by key; absent: the default
  std::string domain;                                        // virtual-host addressing: bucket.<domain>
  std::string region = "us-east-1";
  uint64_t arena_size = 256 * MiB;  // bytes of buffers
  uint64_t arena_client_max = 0;    // bytes of them that one client's address may hold; 0: half of the transfers' part
  unsigned cores = 0;               // threads with an event loop each; 0: one per CPU, at most 16
  bool pin_cores = false;
  unsigned blocking_threads = 8;
  uint64_t index_cache = 256 * MiB;       // bytes of the index cached in memory
  std::optional<uint64_t> bounds_memory;  // of the orders of bounded buckets; unset: an eighth of the machine's
  DiskIo disk_io = DiskIo::automatic;
  log::Level log_level = log::Level::info;
  uint64_t buckets_max = 10'000;                  // of one account
  std::chrono::seconds bucket_log_interval{300};  // from the first of a batch of bucket log records to its delivery
  uint64_t scrub_rate = 8 * MiB;                  // bytes per second of the scrub; 0: no scrub
  std::chrono::seconds scrub_rest{86'400};        // between two rounds
  std::chrono::seconds lifecycle_day{86'400};     // the length of a day in lifecycle rules
  std::optional<uint64_t> keep_free;              // freed bytes that volumes keep for reuse; unset: by the disk's size
  std::string device;                             // block device that has the volumes; empty: the data directory
  std::string pmem;                               // a folder or node of persistent memory, for small objects
  bool accept_data_loss = false;                  // start with the readable part of a damaged store
  std::string access_log = "off";                 // "off", "-" (standard output) or a file
  uint64_t access_log_size_max = 64 * MiB;        // a longer file is rotated; 0: never
  unsigned access_log_files = 8;                  // rotated files that are kept

  EngineChoice engine = EngineChoice::local;

  struct Rados {
    std::string conf;  // ceph.conf; empty: Ceph's default places
    std::string user = "admin";
    std::string pool = "verbena.data", index_pool = "verbena.index";
    std::string name_space;  // of both pools; empty: the default one
    std::chrono::seconds timeout{10};
    bool keep = true;  // take read leases on keys that are read often, and answer them from memory
    uint64_t split_rows = 100'000;
  } rados;

  struct Cache {
    std::optional<uint64_t> size;  // bytes of the arena; unset: half of it; 0: no hot tier
    uint64_t object_size_max = 16 * MiB;
  } cache;

  struct Http {
    std::string address = "127.0.0.1";
    uint16_t port = 9000;  // 0: any free one
    uint64_t header_bytes_max = 64 * KiB;
    uint64_t connections_max = 10'000;
    uint64_t connections_per_client_max = 2'500;  // of one address or IPv6 /64; 0: no limit
    std::chrono::seconds idle_timeout{75};
    std::chrono::seconds header_timeout{30};
    std::chrono::seconds body_timeout{60};
    uint64_t body_rate_min = 1 * KiB;    // bytes per second, over body_timeout; 0: none
    unsigned wrong_signatures_max = 32;  // per client and key in a burst; 0: no limit
  } http;

  // Rules for the clients of some networks, in order: the first entry that holds a client's address decides.
  struct Listener {
    std::vector<std::string> networks;                 // CIDRs of clients
    std::optional<RdmaEncryption> encryption;          // unset: rdma.encryption, and HTTP as it is
    std::optional<std::vector<std::string>> accounts;  // ids, "anonymous"; unset: every caller
    std::string address;                               // of an S3 listener for these networks alone; empty: none
    uint16_t port = 0;
  };
  std::vector<Listener> listeners;

  struct Admin {
    bool enabled = true;
    std::string address = "127.0.0.1";
    std::optional<uint16_t> port;  // unset: 9001, or any free one if that is in use or http.port is 0
    bool open_metrics = false;
    bool console = false;  // also at the S3 door
    // Sign-in to the console: an OpenID Connect issuer ("https://id.example.com/realm"), this console's client id
    // there, and the role of its users. Empty: by keys alone.
    std::string console_provider, console_client, console_role;
    unsigned bucket_metrics = 20;  // buckets with series of their own: those with the most traffic
  } admin;

  struct Traces {
    std::string endpoint;        // of a collector (OTLP over HTTP); empty: no traces
    double sample_ratio = 0.01;  // of requests that carry no trace
    unsigned per_second_max = 100;
    std::string headers;  // name=value,name=value: extra headers for the collector
  } traces;

  struct Encryption {
    std::string key_file;               // empty: DIR/master.keys
    std::string by_default = "none";    // of new objects if neither request nor bucket names one: none, AES256
    std::vector<std::string> kms_keys;  // ids accepted for SSE-KMS; empty: any plain name
    std::string kms_default_key;        // for requests that name none
    bool customer_keys_need_tls = false;
  } encryption;

  struct Events {
    std::vector<std::string> targets;        // "NAME=URL" (events/target_settings.h)
    std::string secrets;                     // a file of lines "NAME SECRET"
    std::vector<std::string> allow_private;  // names of targets that may be in private networks
    std::string ca_file;                     // of targets with TLS; empty: the system's
    std::chrono::seconds timeout{10};        // of one delivery
    uint64_t queue_max = 1'000'000;          // events that may wait per target
    uint64_t queue_bytes_max = 1 * GiB;
    bool drop_when_full = false;
  } events;

  struct S3Express {
    bool enabled = true;
    std::string zone = "local1-az1";  // of directory buckets: the server's Availability Zone
  } s3_express;

  struct SignIn {
    bool web_identity = true;           // by tokens of OpenID Connect providers registered by accounts
    std::vector<std::string> networks;  // CIDRs of providers besides public addresses
    std::string ca_file;                // PEM: authorities of providers' certificates, besides the system's
    // Users of a directory (sign_in/directory_settings.h).
    struct Ldap {
      std::string url;  // empty: disabled
      std::string name = "directory";
      bool insecure = false;  // ldap:// without StartTLS
      std::string ca_file;    // instead of the system's
      std::string user_dn;    // either this, or the lookup's keys
      std::string lookup_dn, lookup_password_file, user_base;
      std::string user_filter = "(uid=%s)";
      std::string user_attribute = "uid";
      std::string group_base;
      std::string group_filter = "(&(objectClass=groupOfNames)(member=%d))";
      std::string role;  // ARN, for users that request none
      std::chrono::seconds timeout{10};
      unsigned tries = 4;                     // wrong passwords per name in a burst,
      std::chrono::seconds tries_every{300};  // and then one more each
    } ldap;
    // Machines with a certificate.
    struct Certificates {
      std::string ca_file;  // empty: disabled
      std::string crl_file;
      std::string name = "machines";
      std::string address;  // empty: http.address
      uint16_t port = 9443;
    } certificates;
  } sign_in;

  struct Tls {
    std::string certificate;  // PEM file; both or neither
    std::string key;
  } tls;

  struct Rdma {
    bool enabled = true;
    std::vector<std::string> provider{"auto"};  // in order of preference
    std::string address = "127.0.0.1";
    uint16_t port = 9100;            // the native door's HTTP listener; 0: any free one
    uint16_t fabric_port_first = 0;  // fabric listeners; 0: any
    uint16_t fabric_port_last = 0;
    // Hardware. Unset: every usable device and the provider's defaults.
    std::string device_name;
    std::optional<int> ib_port;
    std::string gid_index = "auto";
    std::optional<uint16_t> pkey, vlan;  // InfiniBand's partition, RoCE's VLAN; unset: the bound interface's
    bool enable_zero_copy = true;
    std::optional<uint64_t> max_send_wr, max_recv_wr, max_sge, cq_size;
    std::string local_socket;    // path prefix of the same-host sockets; empty: DIR/sockets/local.sock
    bool tcp_encryption = true;  // native door over tcp: TLS 1.3; off: authenticated only
    RdmaEncryption encryption = RdmaEncryption::preferred;  // native door over RDMA devices
    // Providers for tokens: devices (auto, verbs, efa, cxi), libfabric's tcp if named, or none.
    std::vector<std::string> token_provider{"auto"};
    std::vector<std::string> token_networks;  // CIDRs that a token may make the server connect to besides the HTTP peer
    uint16_t token_port_first = 32768;        // ports that a token may make the server connect to
    uint16_t token_port_last = 65535;
    std::chrono::milliseconds operation_timeout{5000};
    uint64_t inline_bytes_max = 4 * KiB;               // native: bytes carried inside a message
    uint64_t connections_max = 2'048;                  // of the native door's HTTP listener
    uint64_t connections_per_client_max = 512;         // of one address or IPv6 /64; 0: no limit
    std::optional<uint64_t> sessions_max;              // unset: as memory and open files allow
    std::optional<uint64_t> sessions_per_account_max;  // unset: half of all; 0: no limit; not for root
    std::optional<uint64_t> sessions_per_client_max;
    uint64_t credits = 64;                // requests in flight per session
    uint64_t watches_max = 4'096;         // of all sessions; 0: none
    uint64_t watch_bytes_max = 32 * MiB;  // of changes that wait for watchers
    std::chrono::seconds session_idle_timeout{300};
  } rdma;

  // A server on the cores of a data processing unit.
  struct Dpu {
    bool enabled = false;
    bool enable_rdma = false;    // refuse to start without an RDMA device of its own
    bool enable_crypto = false;  // refuse to start without AES instructions and rdma.encryption: required
  } dpu;

  // Memory of GPUs that the server itself may reach.
  struct Gpudirect {
    bool enabled = false;       // the driver is loaded at start; false: never
    bool rocm_handles = false;  // memory of AMD's GPUs also by IPC handles, whose size no call verifies
  } gpudirect;
};

// One key: its dotted name, its environment variable, its default as text, its help, and the function that sets it from
// text.
struct ConfigKey {
  std::string_view name;      // "rdma.port"
  std::string_view fallback;  // the default, as a user would write it
  std::string_view help;
  // Empty on success, else the error ("not a port number").
  std::function<std::string(Config&, const std::string& text)> set;
  bool list = false;    // a YAML sequence, or its items separated by commas
  bool secret = false;  // never shown
  bool nested = false;  // a YAML sequence of maps; its text is that sequence as YAML or JSON
};

std::span<const ConfigKey> config_keys();
std::string environment_name(const ConfigKey& key);  // "VERBENA_RDMA_PORT"

// Messages are for operators and name the file, line and key; values of unknown keys are never printed.
using ConfigResult = std::expected<void, std::string>;
// The text of a YAML file. `origin` is its name in messages.
ConfigResult apply_yaml(Config& config, std::string_view text, std::string_view origin);
// VERBENA_* variables. Unknown ones with that prefix are errors too, except those in `ignored`.
ConfigResult apply_environment(Config& config, const char* const* environment,
                               std::span<const std::string_view> ignored);
// One key by its dotted name. `source`: the value's origin, shown with the effective configuration.
ConfigResult apply_value(Config& config, std::string_view name, const std::string& text,
                         std::string_view source = "flag");
// A value for display: hides secrets, and a URL's user, password and query.
std::string shown_value(const ConfigKey& key, std::string_view text);
// Whether, for any client, RDMA may be plain; whether it may be encrypted: by rdma.encryption and `listeners`.
bool rdma_may_be_plain(const Config& config);
bool rdma_may_be_sealed(const Config& config);
// Whether any RDMA token may be served: a plain one, or a sealed one, which needs https.
bool tokens_may_be_served(const Config& config);
// Checks rules between keys: TLS files come in pairs, port ranges are ordered.
ConfigResult check(const Config& config);
// All keys with defaults and help, as Markdown table rows (docs/configuration.md).
std::string config_reference();

}  // namespace verbena
