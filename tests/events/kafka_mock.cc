// A Kafka cluster for tests: librdkafka's mock brokers on loopback, and a consumer that writes their messages into a
// file.
//
// kafka_mock FILE: prints the brokers' addresses, then takes commands on stdin: "down" (all brokers gone, with their
// connections), "up". A line of the file is PARTITION<TAB>KEY<TAB>MESSAGE.
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

namespace {

constexpr int brokers = 3, partitions = 4;
constexpr const char* topic = "objects";

void must(bool true_now, const char* what) {
  if (true_now) return;
  std::cerr << "kafka_mock: " << what << "\n";
  std::exit(1);
}

rd_kafka_t* make_client(rd_kafka_type_t type, const std::string& bootstrap) {
  std::array<char, 256> text{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  const auto set = [&](const char* name, const std::string& value) {
    must(rd_kafka_conf_set(conf, name, value.c_str(), text.data(), text.size()) == RD_KAFKA_CONF_OK, text.data());
  };
  if (type == RD_KAFKA_CONSUMER) {
    set("bootstrap.servers", bootstrap);
    set("group.id", "reader");
    set("reconnect.backoff.max.ms", "200");
  }
  rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
  rd_kafka_t* client = rd_kafka_new(type, conf, text.data(), text.size());
  must(client != nullptr, text.data());
  return client;
}

void read_from_the_beginning(rd_kafka_t* consumer) {
  rd_kafka_poll_set_consumer(consumer);
  rd_kafka_topic_partition_list_t* all = rd_kafka_topic_partition_list_new(partitions);
  for (int i = 0; i < partitions; ++i) {
    rd_kafka_topic_partition_list_add(all, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  must(rd_kafka_assign(consumer, all) == RD_KAFKA_RESP_ERR_NO_ERROR, "assign");
  rd_kafka_topic_partition_list_destroy(all);
}

void write_line(FILE* file, const rd_kafka_message_t& message) {
  std::fprintf(file, "%d\t", message.partition);
  std::fwrite(message.key, 1, message.key_len, file);
  std::fputc('\t', file);
  std::fwrite(message.payload, 1, message.len, file);
  std::fputc('\n', file);
  std::fflush(file);
}

// False: stdin has ended.
bool obey(rd_kafka_mock_cluster_t* cluster) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, 0) <= 0) return true;
  std::string word;
  if (!std::getline(std::cin, word)) return false;
  for (int id = 1; id <= brokers; ++id) {
    if (word == "down") rd_kafka_mock_broker_set_down(cluster, id);
    if (word == "up") rd_kafka_mock_broker_set_up(cluster, id);
  }
  std::cout << word << std::endl;
  return true;
}

}  // namespace

int main(int, char** arguments) {
  FILE* file = std::fopen(arguments[1], "wb");
  must(file != nullptr, "the file");
  rd_kafka_t* host = make_client(RD_KAFKA_PRODUCER, "");
  rd_kafka_mock_cluster_t* cluster = rd_kafka_mock_cluster_new(host, brokers);
  must(cluster != nullptr, "the cluster");
  must(rd_kafka_mock_topic_create(cluster, topic, partitions, brokers) == RD_KAFKA_RESP_ERR_NO_ERROR, "the topic");
  rd_kafka_mock_topic_set_error(cluster, "no-such-topic", RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  const std::string bootstraps = rd_kafka_mock_cluster_bootstraps(cluster);
  rd_kafka_t* consumer = make_client(RD_KAFKA_CONSUMER, bootstraps);
  read_from_the_beginning(consumer);
  std::cout << bootstraps << std::endl;
  while (obey(cluster)) {
    rd_kafka_message_t* message = rd_kafka_consumer_poll(consumer, 50);
    if (message == nullptr) continue;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) write_line(file, *message);
    rd_kafka_message_destroy(message);
  }
  std::fclose(file);
  rd_kafka_destroy(consumer);
  rd_kafka_mock_cluster_destroy(cluster);
  rd_kafka_destroy(host);
}
