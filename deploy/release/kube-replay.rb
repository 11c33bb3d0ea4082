class KubeReplay < Formula
  include Language::Python::Virtualenv

  desc "Replay Kubernetes audit logs against planned admission policies"
  homepage "$source"
  url "$source/releases/download/v$version/$sdist"
  sha256 "$sdist_sha256"
  license "Apache-2.0"

  depends_on "python@3.13"

  def install
    venv = virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "pip", "install", "--require-hashes", "-r", "deploy/requirements.lock"
    venv.pip_install_and_link buildpath
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/replay --version")
  end
end
