import ForgeCrashTesting
import ForgeStorage
import Testing

/// The example of the landing page and of the README, unchanged.
@Suite("The example of the landing page") struct LandingPageTests {
    struct Lost: Error {}

    @Test func keepsWhatItAcknowledged() async throws {
        let launches = KVKey<Int>("launches")
        try await forEachCrash { fileSystem, run in
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            try store.set(launches, value: 1, durability: .full)
            run.acknowledge("set")
        } recover: { fileSystem, crash in
            let store = try FileKVStore(at: "/store", fileSystem: fileSystem)
            if crash.acknowledged.contains("set"), store.get(launches) != 1 { throw Lost() }
        }
    }
}
