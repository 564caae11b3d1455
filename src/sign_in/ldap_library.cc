#include "sign_in/ldap_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

#include <ldap_soname.h>

namespace verbena::sign_in {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  return into != nullptr;
}

bool find_all(void* l, LdapLibrary& to) {
  return find(l, "ldap_init_fd", to.init_fd) && find(l, "ldap_set_option", to.set_option) &&
         find(l, "ldap_get_option", to.get_option) && find(l, "ldap_unbind_ext", to.unbind_ext) &&
         find(l, "ldap_extended_operation", to.extended_operation) && find(l, "ldap_sasl_bind", to.sasl_bind) &&
         find(l, "ldap_search_ext", to.search_ext) && find(l, "ldap_result", to.result) &&
         find(l, "ldap_parse_result", to.parse_result) && find(l, "ldap_msgfree", to.msgfree) &&
         find(l, "ldap_msgtype", to.msgtype) && find(l, "ldap_get_dn", to.get_dn) &&
         find(l, "ldap_memfree", to.memfree) && find(l, "ldap_get_values_len", to.get_values_len) &&
         find(l, "ldap_value_free_len", to.value_free_len) && find(l, "ldap_err2string", to.err2string) &&
         find(l, "ber_sockbuf_add_io", to.sockbuf_add_io) && find(l, "ber_sockbuf_ctrl", to.sockbuf_ctrl);
}

// Ignores /etc/ldap/ldap.conf and any ~/.ldaprc: the library reads them at its first use, unless this variable is set.
void begin(const LdapLibrary& library) {
  ::setenv("LDAPNOINIT", "1", 1);
  int level = 0;
  library.get_option(nullptr, LDAP_OPT_DEBUG_LEVEL, &level);
  ::unsetenv("LDAPNOINIT");
}

}  // namespace

std::expected<const LdapLibrary*, std::string> load_ldap_library() {
  static std::mutex mutex;
  static LdapLibrary library;
  static bool loaded = false;
  const std::lock_guard lock(mutex);
  if (loaded) return &library;
  void* const opened = ::dlopen(VERBENA_LDAP_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return std::unexpected("OpenLDAP's library " VERBENA_LDAP_SONAME " cannot be loaded");
  if (!find_all(opened, library)) return std::unexpected(VERBENA_LDAP_SONAME " lacks a function");
  begin(library);
  loaded = true;
  return &library;
}

}  // namespace verbena::sign_in
