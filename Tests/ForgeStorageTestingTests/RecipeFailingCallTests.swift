import ForgeFileSystem
import ForgeStorageTesting
import Foundation
import SystemPackage
import Testing

@Suite("File-system recipes with each call failing in turn")
struct RecipeFailingCallTests {
    private static let long = String(repeating: "new", count: 3000)

    @Test(
        "replaceFile leaves the old content or the new",
        arguments: Durability.allCases, [FaultEffect.none, .done])
    func replacesFiles(_ durability: Durability, _ effect: FaultEffect) throws {
        let report = try forEachFailingCall(effects: [effect]) {
            try memory { try $0.put("old", at: "/file") }
        } _: { fileSystem in
            try fileSystem.replace("/file", with: Self.long, durability: durability)
        } verify: { fileSystem, error in
            let text = try fileSystem.text(at: "/file")
            try expectOldOrNew(text, old: "old", new: Self.long, after: error)
            if effect == .none, let error = error as? FileSystemError {
                let claimed = error.isEffectVisible ? Self.long : "old"
                guard text == claimed else { throw ConformanceViolation("the error tells the wrong state: \(error)") }
            }
            try fileSystem.replace("/file", with: "newest")
            guard try fileSystem.text(at: "/file") == "newest" else {
                throw ConformanceViolation("the file cannot be replaced any more")
            }
        }
        #expect(report.runCount == report.callCount * (effect == .none ? 18 : 16))
    }

    @Test("the six calls' write leaves the old content or the new")
    func writesData() throws {
        let url = URL(filePath: "/d/file")
        try forEachFailingCall(errnos: FailingCall.testedErrnos) {
            try memory { fileSystem in
                try fileSystem.createDirectory("/d")
                try fileSystem.put("old", at: "/d/file")
            }
        } _: { fileSystem in
            try fileSystem.write(Data("new".utf8), to: url)
        } verify: { fileSystem, error in
            try expectOldOrNew(try fileSystem.text(at: "/d/file"), old: "old", new: "new", after: error)
        }
    }

    @Test("makeDirectories that succeeds has created and synchronised every directory")
    func makesDirectories() throws {
        try forEachFailingCall(errnos: FailingCall.testedErrnos, on: { InMemoryFileSystem() }) { fileSystem in
            do {
                try fileSystem.makeDirectories("/a/b/c")
            } catch {
                // A successful retry must be durable.
                try fileSystem.makeDirectories("/a/b/c")
            }
        } verify: { fileSystem, error in
            guard error == nil else { return try fileSystem.makeDirectories("/a/b/c") }
            guard try fileSystem.status("/a/b/c").type == .directory else {
                throw ConformanceViolation("there is no such directory")
            }
            fileSystem.log.acknowledge("directories")
            let findings = fileSystem.log.lint().filter { $0.kind == .acknowledgedUnsynchronizedName }
            guard findings.isEmpty else { throw ConformanceViolation("\(findings)") }
        }
    }

    @Test("a failed removeTree can be repeated")
    func removesTrees() throws {
        try forEachFailingCall(errnos: FailingCall.testedErrnos) {
            try memory { fileSystem in
                try fileSystem.makeDirectories("/t/a/b")
                try fileSystem.put("x", at: "/t/a/b/file")
                try fileSystem.put("x", at: "/t/file")
                try fileSystem.put("x", at: "/kept")
                try fileSystem.createSymbolicLink("/t/a/link", to: "/kept")
            }
        } _: { fileSystem in
            try fileSystem.removeTree("/t")
        } verify: { fileSystem, error in
            let isGone = try fileSystem.withDirectory("/") { (root) throws(FileSystemError) in
                try fileSystem.entries(of: root).count == 1
            }
            if error == nil, !isGone { throw ConformanceViolation("the tree is still there") }
            if !isGone { try fileSystem.removeTree("/t") }
            guard try fileSystem.text(at: "/kept") == "x" else { throw ConformanceViolation("a link was followed") }
        }
    }

    @Test("a failed copyTree leaves the original unchanged and can be repeated after removing its copy")
    func copiesTrees() throws {
        try forEachFailingCall(errnos: FailingCall.testedErrnos) {
            try memory { fileSystem in
                try fileSystem.makeDirectories("/t/a/b")
                try fileSystem.put("x", at: "/t/a/b/file")
                try fileSystem.createSymbolicLink("/t/a/link", to: "b/file")
            }
        } _: { fileSystem in
            try fileSystem.copyTree("/t", to: "/copy")
        } verify: { fileSystem, error in
            if error != nil {
                if try fileSystem.exists("/copy") { try fileSystem.removeTree("/copy") }
                try fileSystem.copyTree("/t", to: "/copy")
            }
            for root in ["/t", "/copy"] {
                guard try fileSystem.text(at: POSIXPath(root + "/a/b/file")) == "x",
                    try fileSystem.text(at: POSIXPath(root + "/a/link")) == "x"
                else { throw ConformanceViolation("\(root) is not whole") }
            }
        }
    }

    @Test("removeItem and contentsOfDirectory return correct results or throw")
    func removesItems() throws {
        let url = URL(filePath: "/d")
        try forEachFailingCall(errnos: FailingCall.testedErrnos) {
            try memory { fileSystem in
                try fileSystem.makeDirectories("/d/e")
                try fileSystem.put("x", at: "/d/file")
            }
        } _: { fileSystem in
            guard try fileSystem.contentsOfDirectory(at: url).count == 2 else {
                throw ConformanceViolation("listed wrongly")
            }
            try fileSystem.removeItem(at: url)
        } verify: { fileSystem, error in
            if let violation = error as? ConformanceViolation { throw violation }
            if error == nil, fileSystem.fileExists(atPath: "/d") { throw ConformanceViolation("still there") }
        }
    }
}
