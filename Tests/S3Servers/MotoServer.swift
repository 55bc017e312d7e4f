#if S3
import ChildProcesses
package import ForgeS3
import Foundation
import ServerTestSupport
import Synchronization

/// moto, a server with the API of S3 in memory, which checks signatures and rights; it ends with the process.
///
/// It serves one request after the other, because moto itself looks for an object and stores it in two steps.
package final class MotoServer: Sendable {
    /// Whether the tests can run; says so if they cannot.
    package static let isInstalled: Bool = {
        let run: ChildProcess.Outcome
        do { run = try ChildProcess.run("python3", ["-c", "import moto.server"]) } catch { return false }
        let isInstalled = run.end == .exit(0)
        if !isInstalled { print("\n*** NO TEST OF S3 RUNS: moto is not installed (pip install 'moto[server]') ***\n") }
        return isInstalled
    }()

    private static let first = Task { try await onThread { try MotoServer() } }

    package static func shared() async throws -> MotoServer { try await first.value }

    /// A bucket that exists, in the region `us-east-1`.
    package static let bucket = "first-bucket"

    package let port: UInt16
    package let accessKeyID: String
    package let secretAccessKey: String
    private let process: ChildProcess
    private static let running = Mutex<Set<Int32>>([])

    package var endpoint: String { "http://127.0.0.1:\(port)" }

    package var credentials: S3Credentials {
        S3Credentials(accessKeyID: accessKeyID, secretAccessKey: secretAccessKey)
    }

    private static let script = """
        import hashlib, io, logging
        from moto import settings
        from moto.iam.access_control import S3IAMRequest
        from moto.iam.models import iam_backends
        from moto.s3.models import s3_backends
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        users = iam_backends["123456789012"]["aws"]
        users.create_user("us-east-1", "tester")
        policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'
        users.put_user_policy("tester", "all", policy)
        key = users.create_access_key("tester")
        s3_backends["123456789012"]["aws"].create_bucket("\(bucket)", "us-east-1")
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
        application = DomainDispatcherApplication(create_backend_app)
        uri = None

        # moto signs a decoded URI, which is not the one that was sent.
        class Request(S3IAMRequest):
            def __init__(self, **arguments):
                super().__init__(**(arguments | {"path": uri}))

        import moto.iam.access_control
        moto.iam.access_control.S3IAMRequest = Request

        # moto does not compare the digest of a body.
        def checked(environ, start):
            global uri
            uri = environ["RAW_URI"]
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            digest = environ.get("HTTP_X_AMZ_CONTENT_SHA256")
            if digest is not None and hashlib.sha256(body).hexdigest() != digest:
                start("400 Bad Request", [])
                return [b"<Error><Code>XAmzContentSHA256Mismatch</Code></Error>"]
            environ["wsgi.input"] = io.BytesIO(body)
            return application(environ, start)

        server = make_server("127.0.0.1", 0, checked)
        print(server.server_port, key.access_key_id, key.secret_access_key, flush=True)
        server.serve_forever()
        """

    package struct NotStarted: Error {}

    private init() throws {
        let output = Pipe()
        atexit { MotoServer.running.withLock { for process in $0 { kill(process, SIGKILL) } } }
        let process = try ChildProcess("python3", ["-c", Self.script], output: .pipe(output))
        self.process = process
        Self.running.withLock { _ = $0.insert(process.id) }
        // The line is written when the server listens.
        var line = Data()
        while line.last != UInt8(ascii: "\n") {
            let bytes = output.fileHandleForReading.availableData
            guard !bytes.isEmpty else { throw NotStarted() }
            line += bytes
        }
        let words = String(decoding: line, as: UTF8.self).split(whereSeparator: \.isWhitespace).map(String.init)
        guard words.count == 3, let port = UInt16(words[0]) else { throw NotStarted() }
        self.port = port
        (accessKeyID, secretAccessKey) = (words[1], words[2])
    }
}
#endif
