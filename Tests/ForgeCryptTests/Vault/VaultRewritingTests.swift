import ForgeCrypt
import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import Testing

@Suite("Rewriting a vault")
struct VaultRewritingTests {
    @Test("neither a change nor the next read opens the file that the change has written")
    func keepsFileOpen() throws {
        let memory = InMemoryFileSystem()
        let opened = Mutex<[POSIXPath]>([])
        let counting = InterceptedFileSystem(memory) { (call) throws(FileSystemError) in
            if call.operation == .open, let path = call.path { opened.withLock { $0.append(path) } }
        }
        let place = VaultPlace(counting)
        let vault = try place.vault()
        try vault.set("v", for: TestKeys.token)
        #expect(try vault.get(TestKeys.token) == "v")
        try vault.set("w", for: TestKeys.token)
        #expect(try vault.get(TestKeys.token) == "w")
        // Opened once before the first change, when there is no file.
        #expect(opened.withLock { $0.count { $0 == place.path } } == 1)
    }

    @Test("a file written by another object is read again")
    func otherWriter() throws {
        let place = VaultPlace()
        let (one, other) = (try place.vault(), try place.vault())
        for value in ["a", "b", "c"] {
            try one.set(value, for: TestKeys.token)
            #expect(try other.get(TestKeys.token) == value)
            try other.set(value + "2", for: TestKeys.token)
            #expect(try one.get(TestKeys.token) == value + "2")
        }
    }

    @Test("no file stays open after the vault is released")
    func closes() throws {
        let memory = InMemoryFileSystem()
        do {
            let vault = try VaultPlace(memory).vault()
            for value in ["a", "b"] { try vault.set(value, for: TestKeys.token) }
        }
        #expect(memory.openDescriptors.isEmpty)
    }
}
