import ForgeKVStore
import ForgeStorageTesting
import Testing

/// What the defaults of the protocol would hide: pages of values with the identity of the store, times to live, and
/// updates of changes.
@Suite("Every layer forwards every requirement of an asynchronous store")
struct AsyncForwardingTests {
    @Test(arguments: ["recording", "faulting", "read-only", "namespaced"])
    func forwards(_ name: String) async throws {
        let remote = RemoteDouble()
        let revision = remote.change([("n/a", 1), ("n/b", 2)])
        let recorded = RecordingKVStore(remote)
        let store: any AsyncKVStoring =
            switch name {
            case "recording": RecordingKVStore(recorded)
            case "read-only": ReadOnlyKVStore(recorded)
            case "faulting": FaultingAsyncKVStore(recorded) { _ in nil }
            default: NamespacedKVStore(recorded, namespace: "n")
            }
        let prefix = name == "namespaced" ? "" : "n/"

        let page = try await store.entries(prefix: prefix, after: nil, limit: 10, at: revision)
        #expect(page.entries.map(\.name) == [prefix + "a", prefix + "b"])
        #expect(page.revision == revision)
        #expect(page.storeID?.hasPrefix("one") == true)
        #expect(recorded.calls == [KVStoreCall(.entries, ["n/"])])

        var iterator = store.changes(prefix: prefix, from: revision).makeAsyncIterator()
        let next = remote.change([("n/a", 3), ("n/b", nil)])
        let update = try await iterator.nextSet()
        #expect(update?.changes.count == 2)
        #expect(update?.revision == next)

        let removal = KVKey<Int>(prefix + "a")
        var batch = KVBatch()
        batch.remove(removal)
        guard name != "read-only" else {
            let error = await #expect(throws: KVStoreError.self) { try await store.commit(batch, timeToLive: nil) }
            #expect(error?.code == .readOnly)
            return
        }
        #expect(try await store.commit(batch, timeToLive: nil) == next + 1)
        let error = await #expect(throws: KVStoreError.self) {
            try await store.set(removal, value: 1, timeToLive: .seconds(1))
        }
        #expect(error?.code == .refused)
    }
}
