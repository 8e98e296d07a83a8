// The Test interface by gRPC for C++, its synchronous interface: `peer-grpc serve tcp|unix`, `peer-grpc call ADDRESS`.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "../common/slices.h"
#include "test.grpc.pb.h"

class Exerciser final : public test::Test::Service {
    grpc::Status Null(grpc::ServerContext *, const test::Nothing *, test::Nothing *) override { return grpc::Status::OK; }
    grpc::Status Put(grpc::ServerContext *, const test::Bytes *, test::Nothing *) override { return grpc::Status::OK; }
    grpc::Status Get(grpc::ServerContext *, const test::Length *length, test::Bytes *result) override {
        result->set_bytes(std::string(length->length(), MARK));
        return grpc::Status::OK;
    }
};

static std::shared_ptr<grpc::Channel> channel;

static void *make_caller(void) { return test::Test::NewStub(channel).release(); }

static void free_caller(void *caller) { delete static_cast<test::Test::Stub *>(caller); }

static void call(void *caller, const char *procedure, const char *bytes, size_t length) {
    auto *stub = static_cast<test::Test::Stub *>(caller);
    grpc::ClientContext context;
    grpc::Status status;
    test::Nothing nothing;
    if (!strcmp(procedure, "null")) {
        status = stub->Null(&context, nothing, &nothing);
    } else if (!strcmp(procedure, "put")) {
        test::Bytes argument;
        argument.set_bytes(bytes, length);
        status = stub->Put(&context, argument, &nothing);
    } else {
        test::Length wanted;
        test::Bytes result;
        wanted.set_length(length);
        status = stub->Get(&context, wanted, &result);
        if (result.bytes().size() != length) status = grpc::Status::CANCELLED;
    }
    if (!status.ok()) {
        fprintf(stderr, "%s\n", status.error_message().c_str());
        exit(1);
    }
}

static void serve(const std::string &transport) {
    Exerciser exerciser;
    grpc::ServerBuilder builder;
    int port = 0;
    std::string address = "unix:/tmp/peer-grpc-" + std::to_string(getpid());
    if (transport == "unix")
        builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    else
        builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&exerciser);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    ready(transport == "unix" ? address.c_str() : ("127.0.0.1:" + std::to_string(port)).c_str());
    server->Shutdown(std::chrono::system_clock::now());
}

int main(int count, char **words) {
    if (count < 3) return 2;
    if (!strcmp(words[1], "serve")) {
        serve(words[2]);
        return 0;
    }
    channel = grpc::CreateChannel(words[2], grpc::InsecureChannelCredentials());
    answer_slices();
}
