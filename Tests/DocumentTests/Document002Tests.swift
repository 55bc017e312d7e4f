// "SessionManager Without Knowing the Storage Type": its mock and its tests, as printed.

import ForgeStorage
import XCTest

typealias SessionManager = ForgeStorage.SessionManager<User, Never>

struct User: Codable {
    let id: String
    let name: String
    let email: String
}

class MockSessionStorage: SessionStorage {
    var storedUser: User?

    func saveUser(_ user: User) {
        storedUser = user
    }

    func loadUser() -> User? {
        return storedUser
    }

    func clearUser() {
        storedUser = nil
    }
}

class SessionManagerTests: XCTestCase {
    var sessionManager: SessionManager!
    var mockStorage: MockSessionStorage!

    override func setUp() {
        super.setUp()
        mockStorage = MockSessionStorage()
        sessionManager = SessionManager(storage: mockStorage)
    }

    func testSaveAndLoadUser() {
        let testUser = User(id: "123", name: "John Doe", email: "john@example.com")
        sessionManager.saveUser(testUser)

        let loadedUser = sessionManager.loadUser()
        XCTAssertNotNil(loadedUser, "User should be saved and loaded")
        XCTAssertEqual(loadedUser?.id, testUser.id, "User ID should match")
        XCTAssertEqual(loadedUser?.name, testUser.name, "User name should match")
        XCTAssertEqual(loadedUser?.email, testUser.email, "User email should match")
    }

    func testClearUser() {
        sessionManager.saveUser(User(id: "123", name: "John Doe", email: "john@example.com"))
        sessionManager.clearUser()

        let loadedUser = sessionManager.loadUser()
        XCTAssertNil(loadedUser, "User should be cleared")
    }
}
