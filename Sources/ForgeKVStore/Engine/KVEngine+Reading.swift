import Synchronization

extension KVEngine {
    /// The value of a key whose look-up was interrupted.
    @inline(never)
    func value<Value>(
        of key: KVKey<Value>, after first: TableView.Interruption
    ) throws(UndecodableValue) -> Value? {
        var interruption = first
        while true {
            switch interruption {
            case .busy: writer.withLock { _ in }
            case .encoded(let cell):
                return try table.decode(cell, of: key) { content in
                    writer.withLock { $0.table.replace(cell, by: content, key.identity) }
                }
            }
            do throws(TableView.Interruption) {
                return try table.view.value(of: key)
            } catch {
                interruption = error
            }
        }
    }

    /// The cell of a name.
    func cell(of name: KeyName) -> ValueCell? {
        while true {
            do throws(TableView.Interruption) {
                return try table.view.cell(of: name)
            } catch {
                writer.withLock { _ in }
            }
        }
    }

    /// The names of all keys.
    func names() throws(KVStoreError) -> [String] {
        try checkFork(.keys)
        return writer.withLock { $0.table.names }
    }

    /// All names and values at one moment.
    func snapshot() throws(KVStoreError) -> KVSnapshot {
        try checkFork(.snapshot)
        return KVEntry.all(writer.withLock { $0.table.contents })
    }
}
