// The text of a kernel, as the driver double reads it.
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>

#include "ptx.h"

namespace cuda_double::ptx {
namespace {

struct Token {
  std::string text;
  unsigned line = 0;
};

struct Refused {
  std::string why;
};

// Words have letters, digits and "._%$"; everything else is a token of one character.
std::vector<Token> tokens_of(const std::string& text) {
  std::vector<Token> out;
  unsigned line = 1;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at;
    } else if (text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
    } else {
      const auto is_word = [](char one) {
        return std::isalnum(static_cast<unsigned char>(one)) != 0 || std::strchr("._%$", one) != nullptr;
      };
      size_t end = at + 1;
      while (is_word(c) && end < text.size() && is_word(text[end])) ++end;
      out.push_back({text.substr(at, end - at), line});
      at = end;
    }
  }
  return out;
}

class Parser {
 public:
  Parser(const std::string& text, Module& module) : tokens_(tokens_of(text)), module_(module) {}

  void run() {
    expect({".version", "6.0", ".target", "sm_50", ".address_size", "64"});
    while (!done()) {
      const std::string what = next();
      if (what == ".global") {
        global();
      } else if (what == ".visible") {
        expect({".entry"});
        entry();
      } else {
        refuse("'" + what + "' is not known here");
      }
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Refused{"line " + std::to_string(at_ == 0 ? 0 : tokens_[at_ - 1].line) + ": " + why};
  }
  bool done() const { return at_ == tokens_.size(); }
  std::string next() {
    if (done()) refuse("the text ends too early");
    return tokens_[at_++].text;
  }
  bool take(const char* text) {
    if (done() || tokens_[at_].text != text) return false;
    ++at_;
    return true;
  }
  void expect(std::initializer_list<const char*> texts) {
    for (const char* text : texts) {
      if (const std::string found = next(); found != text) refuse("'" + found + "' instead of '" + text + "'");
    }
  }

  uint64_t number(std::string text) const {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) refuse("'" + text + "' is no number");
    const bool marked = text.back() == 'U';
    if (marked) text.pop_back();
    char* end = nullptr;
    errno = 0;
    const uint64_t value = std::strtoull(text.c_str(), &end, 0);
    if (*end != '\0' || errno != 0) refuse("'" + text + "' is no number");
    if (value > INT64_MAX && !marked && text.compare(0, 2, "0x") != 0) refuse("'" + text + "' needs a U");
    return value;
  }

  // ".align N .TYPE name[count]": the name, and bytes.
  std::string variable(size_t& element, size_t& count, size_t& alignment) {
    expect({".align"});
    alignment = number(next());
    const std::string type = next();
    element = type == ".u32" || type == ".b32" ? 4 : type == ".u64" || type == ".b64" ? 8 : 0;
    if (element == 0 || alignment < element) refuse("a variable of type " + type);
    std::string name = next();
    expect({"["});
    count = number(next());
    expect({"]"});
    return name;
  }

  void global() {
    size_t element = 0, count = 0;
    Global made;
    const std::string name = variable(element, count, made.alignment);
    made.size = element * count;
    if (take("=")) {
      expect({"{"});
      made.initial.resize(made.size);
      for (size_t i = 0; i < count; ++i) {
        if (i != 0) expect({","});
        const uint64_t value = number(next());
        if (element == 4 && value > UINT32_MAX) refuse("a number that does not fit its type");
        std::memcpy(made.initial.data() + i * element, &value, element);
      }
      expect({"}"});
    }
    expect({";"});
    if (!module_.globals.emplace(name, std::move(made)).second) refuse(name + " is there twice");
  }

  void entry() {
    const std::string name = next();
    kernel_ = {};
    kernel_.shared_bytes = 256;  // variables of a kernel need not begin at zero
    registers_.clear();
    shared_.clear();
    labels_.clear();
    branches_.clear();
    expect({"("});
    do {
      expect({".param", ".u64"});
      kernel_.parameters.push_back(next());
    } while (take(","));
    expect({")", "{"});
    while (!take("}")) statement();
    for (const auto& [instruction, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) refuse("no label " + label);
      kernel_.code[instruction].target = found->second;
    }
    if (kernel_.code.empty() || kernel_.code.back().op != Op::ret || kernel_.code.back().predicate >= 0) {
      refuse("a kernel that does not end with ret");
    }
    module_.kernels.emplace(name, std::move(kernel_));
  }

  void statement() {
    if (take(".reg")) return declare();
    if (take(".shared")) {
      size_t element = 0, count = 0, alignment = 0;
      const std::string name = variable(element, count, alignment);
      kernel_.shared_bytes = (kernel_.shared_bytes + alignment - 1) / alignment * alignment;
      shared_[name] = kernel_.shared_bytes;
      kernel_.shared_bytes += element * count;
      return expect({";"});
    }
    if (at_ + 1 < tokens_.size() && tokens_[at_ + 1].text == ":") {
      const std::string label = next();
      expect({":"});
      if (!labels_.emplace(label, kernel_.code.size()).second) refuse("the label " + label + " is there twice");
      return;
    }
    instruction();
  }

  // ".reg .b32 %r<8>;": %r0 to %r7.
  void declare() {
    const std::string type = next(), prefix = next();
    const unsigned bits = type == ".pred" ? 1 : type == ".b32" ? 32 : type == ".b64" ? 64 : 0;
    if (bits == 0) refuse("registers of type " + type);
    expect({"<"});
    const uint64_t count = number(next());
    expect({">", ";"});
    for (uint64_t i = 0; i < count; ++i) {
      if (!registers_.emplace(prefix + std::to_string(i), Register{kernel_.registers++, bits}).second) {
        refuse(prefix + " is there twice");
      }
    }
  }

  struct Register {
    unsigned place = 0, bits = 0;
  };

  Operand reg(unsigned bits) {
    const std::string name = next();
    const auto found = registers_.find(name);
    if (found == registers_.end()) refuse("'" + name + "' is no register");
    if (found->second.bits != bits) refuse(name + " has not " + std::to_string(bits) + " bits");
    return {.kind = Operand::Kind::reg, .reg = found->second.place};
  }
  Operand value(unsigned bits) {
    if (!done() && std::isdigit(static_cast<unsigned char>(tokens_[at_].text[0])) != 0) {
      const uint64_t given = number(next());
      if (bits == 32 && given > UINT32_MAX) refuse("a number of more than 32 bits");
      return {.kind = Operand::Kind::number, .number = given};
    }
    return reg(bits);
  }
  // "[%a1+8]"
  Operand address(unsigned bits) {
    expect({"["});
    Operand out = reg(bits);
    if (take("+")) out.number = number(next());
    expect({"]"});
    return out;
  }
  // What mov may have besides: a special register, or the address of a variable.
  Operand source(unsigned bits) {
    if (take("%tid.x") || take("%ctaid.x")) {
      if (bits != 32) refuse("a special register has 32 bits");
      const bool thread = tokens_[at_ - 1].text == "%tid.x";
      return {.kind = thread ? Operand::Kind::thread : Operand::Kind::block};
    }
    const std::string& name = tokens_[at_].text;
    if (const auto found = shared_.find(name); found != shared_.end()) {
      ++at_;
      return {.kind = Operand::Kind::shared, .number = found->second};
    }
    if (module_.globals.contains(name)) {
      if (bits != 64) refuse("an address of the device has 64 bits");
      ++at_;
      return {.kind = Operand::Kind::global, .name = name};
    }
    return value(bits);
  }

  void instruction() {
    Instruction made;
    made.line = done() ? 0 : tokens_[at_].line;
    if (take("@")) made.predicate = static_cast<int>(reg(1).reg);
    const std::string name = next();
    if (name == "ret") {
      made.op = Op::ret;
    } else if (name == "bar.sync") {
      if (made.predicate >= 0) refuse("a barrier with a predicate");
      made.op = Op::barrier;
      expect({"0"});
    } else if (name == "bra") {
      made.op = Op::branch;
      branches_.emplace_back(kernel_.code.size(), next());
    } else {
      operation(name, made);
    }
    expect({";"});
    kernel_.code.push_back(std::move(made));
  }

  void operation(const std::string& name, Instruction& made) {
    static const std::map<std::string, Op> known = {
        {"ld.global", Op::load}, {"ld.shared", Op::load}, {"st.global", Op::store}, {"st.shared", Op::store},
        {"ld.param", Op::param}, {"mov", Op::mov},        {"add", Op::add},         {"sub", Op::sub},
        {"mul.lo", Op::mul},     {"and", Op::bit_and},    {"xor", Op::bit_xor},     {"shl", Op::shl},
        {"shr", Op::shr},        {"min", Op::min},        {"neg", Op::neg},         {"setp.eq", Op::set},
        {"setp.ne", Op::set},    {"setp.lt", Op::set},    {"cvt.u64", Op::cvt},     {"cvt.u32", Op::cvt}};
    // The types that each may have: bits are neither added nor compared.
    static const std::map<Op, std::string> types = {
        {Op::load, "b"}, {Op::store, "b"}, {Op::param, "u"},   {Op::mov, "bu"},    {Op::add, "us"},
        {Op::sub, "us"}, {Op::mul, "us"},  {Op::bit_and, "b"}, {Op::bit_xor, "b"}, {Op::shl, "b"},
        {Op::shr, "us"}, {Op::min, "us"},  {Op::neg, "s"},     {Op::set, "us"},    {Op::cvt, "u"}};
    const size_t dot = name.rfind('.');
    const auto found = known.find(name.substr(0, dot));
    if (dot == name.npos || found == known.end()) refuse("'" + name + "' is not known");
    const std::string type = name.substr(dot + 1);
    made.op = found->second;
    if (type.size() != 3 || types.at(made.op).find(type[0]) == std::string::npos) refuse("'" + name + "' is not known");
    made.bits = type.substr(1) == "32" ? 32 : type.substr(1) == "64" ? 64 : 0;
    if (made.bits == 0) refuse("'" + name + "' is not known");
    made.is_signed = type[0] == 's';
    made.shared = name.find(".shared") != name.npos;
    const unsigned address_bits = made.shared ? 32 : 64;
    switch (made.op) {
      case Op::load:
        made.to = reg(made.bits);
        expect({","});
        made.a = address(address_bits);
        return;
      case Op::store:
        made.a = address(address_bits);
        expect({","});
        made.b = reg(made.bits);
        return;
      case Op::param: {
        made.to = reg(made.bits);
        expect({",", "["});
        const std::string parameter = next();
        const auto& all = kernel_.parameters;
        const auto at = std::find(all.begin(), all.end(), parameter);
        if (at == all.end() || made.bits != 64) refuse("no such parameter: " + parameter);
        made.a = {.kind = Operand::Kind::number, .number = static_cast<uint64_t>(at - all.begin())};
        return expect({"]"});
      }
      case Op::mov:
        made.to = reg(made.bits);
        expect({","});
        made.a = source(made.bits);
        return;
      case Op::neg:
        made.to = reg(made.bits);
        expect({","});
        made.a = reg(made.bits);
        return;
      case Op::cvt: {  // "cvt.u64.u32": to and from
        const unsigned to = name.compare(0, 7, "cvt.u64") == 0 ? 64 : 32;
        made.from_bits = made.bits;
        made.bits = to;
        made.to = reg(to);
        expect({","});
        made.a = reg(made.from_bits);
        return;
      }
      case Op::set:
        made.compare = name.compare(0, 7, "setp.eq") == 0   ? Compare::eq
                       : name.compare(0, 7, "setp.ne") == 0 ? Compare::ne
                                                            : Compare::lt;
        made.to = reg(1);
        expect({","});
        made.a = reg(made.bits);
        expect({","});
        made.b = value(made.bits);
        return;
      default:
        made.to = reg(made.bits);
        expect({","});
        made.a = reg(made.bits);
        expect({","});
        made.b = value(made.op == Op::shl || made.op == Op::shr ? 32 : made.bits);
        return;
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module& module_;
  Kernel kernel_;
  std::map<std::string, Register> registers_;
  std::map<std::string, size_t> shared_, labels_;
  std::vector<std::pair<size_t, std::string>> branches_;
};

}  // namespace

bool parse(const std::string& text, Module& module, std::string& why) {
  try {
    Parser(text, module).run();
    return true;
  } catch (const Refused& refused) {
    why = refused.why;
    return false;
  }
}

}  // namespace cuda_double::ptx
