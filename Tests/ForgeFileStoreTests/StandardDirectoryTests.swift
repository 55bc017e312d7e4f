#if !canImport(Darwin)
import Foundation
import Testing

@testable import ForgeFileStore
@testable import ForgeFileSystem

@Suite("Directories by the XDG specification")
struct StandardDirectoryTests {
    private let memory = InMemoryFileSystem()

    private func path(_ directory: StandardDirectory, _ environment: [String: String] = [:]) throws -> String {
        String(try directory.path(environment: environment, home: "/home/me", on: memory))
    }

    @Test("without environment variables they are in the home directory")
    func defaults() throws {
        #expect(try path(.documents) == "/home/me/Documents")
        #expect(try path(.applicationSupport) == "/home/me/.local/share")
        #expect(try path(.caches) == "/home/me/.cache")
        #expect(try path(.caches, ["HOME": "/home/you"]) == "/home/you/.cache")
    }

    @Test("environment variables take precedence unless their paths are not absolute")
    func environment() throws {
        let environment = ["XDG_DOCUMENTS_DIR": "/d", "XDG_DATA_HOME": "/s", "XDG_CACHE_HOME": "/c"]
        #expect(try path(.documents, environment) == "/d")
        #expect(try path(.applicationSupport, environment) == "/s")
        #expect(try path(.caches, environment) == "/c")
        #expect(try path(.caches, ["XDG_CACHE_HOME": "relative"]) == "/home/me/.cache")
        #expect(try path(.applicationSupport, ["XDG_DATA_HOME": ""]) == "/home/me/.local/share")
    }

    @Test(
        "user-dirs.dirs determines the documents directory",
        arguments: [
            ("XDG_DOCUMENTS_DIR=\"$HOME/Dokumente\"\n", "/home/me/Dokumente"),
            ("# comment\nXDG_DESKTOP_DIR=\"$HOME/Desk\"\n  XDG_DOCUMENTS_DIR=\"/mnt/docs\"\n", "/mnt/docs"),
            ("XDG_DOCUMENTS_DIR=\"relative\"\n", "/home/me/Documents"),
            ("XDG_DOCUMENTS_DIR=\"$HOME/a\"\nXDG_DOCUMENTS_DIR=\"$HOME/b\"", "/home/me/b"),
            ("", "/home/me/Documents"),
        ])
    func userDirectories(_ content: String, _ expected: String) throws {
        try memory.createDirectory(at: URL(filePath: "/home/me/.config"), withIntermediateDirectories: true)
        try memory.write(Data(content.utf8), to: URL(filePath: "/home/me/.config/user-dirs.dirs"))
        #expect(try path(.documents) == expected)
        #expect(try path(.documents, ["XDG_CONFIG_HOME": "/none"]) == "/home/me/Documents")
    }

    @Test("this process has each of them")
    func own() throws {
        for directory in StandardDirectory.allCases { #expect(try directory.path().isAbsolute) }
    }

    @Test("a protection class has no effect, also where no directory could have one")
    func protection() throws {
        try FileProtection.complete.apply(to: "/none", on: SystemFileSystem())
        try FileProtection.complete.apply(to: "/none", on: memory)
    }

    @Test("a store for a kind of data is in its directory")
    func store() async throws {
        let store = DiskFileStore(directory: .caches, namespace: "org.example.forge", fileProtection: .complete)
        #expect(try POSIXPath(try store.root) == StandardDirectory.caches.path().appending("org.example.forge"))
    }
}
#endif
