# The provisioners of an image build; take them into your own build block in place of this source. The hardware of the
# builder is not that of the machine: what hangs on it is left to hosttune-ready.service at the first boot.
variable "deb" {
  type    = string
  default = "dist/hosttune_0.2.0_all.deb"
}

source "null" "example" {
  communicator = "none"
}

build {
  sources = ["source.null.example"]

  provisioner "file" {
    source      = var.deb
    destination = "/tmp/hosttune.deb"
  }
  provisioner "shell" {
    execute_command = "sudo -n sh -eux '{{ .Path }}'"
    inline = [
      "cloud-init status --wait || [ $? -eq 2 ]",
      "apt-get install -y /tmp/hosttune.deb && rm /tmp/hosttune.deb",
      "hosttune apply --yes || [ $? -eq 1 ]",
      "systemctl enable hosttune-ready.service",
    ]
  }
  provisioner "shell" {
    inline            = ["sudo reboot"]
    expect_disconnect = true
  }
  provisioner "shell" {
    pause_before    = "10s"
    execute_command = "sudo -n sh -eux '{{ .Path }}'"
    inline = [
      "hosttune check --format junit --output /tmp/hosttune.xml || [ $? -eq 1 ]",
      "cloud-init clean --logs && truncate -s 0 /etc/machine-id",
    ]
  }
}
