// OpenLDAP's library, loaded only if a directory is configured: with its dependencies (GnuTLS, SASL, ...) it would cost
// every start of the program five milliseconds and three megabytes.
#pragma once

#include <ldap.h>
#include <openldap.h>

#include <expected>
#include <string>

namespace verbena::sign_in {

// Its functions, named without "ldap_".
struct LdapLibrary {
  decltype(&::ldap_init_fd) init_fd;
  decltype(&::ldap_set_option) set_option;
  decltype(&::ldap_get_option) get_option;
  decltype(&::ldap_unbind_ext) unbind_ext;
  decltype(&::ldap_extended_operation) extended_operation;
  decltype(&::ldap_sasl_bind) sasl_bind;
  decltype(&::ldap_search_ext) search_ext;
  decltype(&::ldap_result) result;
  decltype(&::ldap_parse_result) parse_result;
  decltype(&::ldap_msgfree) msgfree;
  decltype(&::ldap_msgtype) msgtype;
  decltype(&::ldap_get_dn) get_dn;
  decltype(&::ldap_memfree) memfree;
  decltype(&::ldap_get_values_len) get_values_len;
  decltype(&::ldap_value_free_len) value_free_len;
  decltype(&::ldap_err2string) err2string;
  decltype(&::ber_sockbuf_add_io) sockbuf_add_io;
  decltype(&::ber_sockbuf_ctrl) sockbuf_ctrl;
};

// The first call loads it, permanently, and must come before there are threads that read the environment. The error is
// a sentence for operators.
std::expected<const LdapLibrary*, std::string> load_ldap_library();

}  // namespace verbena::sign_in
