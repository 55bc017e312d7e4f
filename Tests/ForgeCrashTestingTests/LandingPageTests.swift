import ForgeCrashTesting
import ForgeStorage
import TestDepth
import Testing

/// The example of the landing page and of the README; a default run samples the states that the example visits.
@Suite("The example of the landing page") struct LandingPageTests {
    struct Lost: Error {}

    @Test func keepsWhatItAcknowledged() async throws {
        let launches = KVKey<Int>("launches")
        try await forEachCrash(limit: TestDepth.limit(500, deep: 100_000)) { fileSystem, run in
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            try store.set(launches, value: 1, durability: .full)
            run.acknowledge("set")
        } recover: { fileSystem, crash in
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            if crash.acknowledged.contains("set"), store.get(launches) != 1 { throw Lost() }
        }
    }
}
